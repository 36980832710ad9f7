"""Answers what an SDK harness asks of the state of stateful DoFns, from the slot's overlay."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from sparkdrain.fnapi.elements import unprefixed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from apache_beam.portability.api import beam_fn_api_pb2

    from sparkdrain.harness.harness import StateTerms
    from timers_state import KeyScope


class UserState:
    """The state of the DoFns of a stage. All values stay as the harness has encoded them.

    Args:
        terms: of the state of a transform.
    """

    def __init__(self, terms: Callable[[str], StateTerms]) -> None:
        self._terms = terms

    def read(self, key: beam_fn_api_pb2.StateKey) -> Iterator[bytes]:
        """The content of a state, in pieces."""
        kind, asked, scope = self._of(key)
        tag = asked.user_state_id.encode()
        match kind:
            case "bag_user_state":
                return chain.from_iterable(scope.bag(tag, asked.window).segments())
            case "multimap_user_state":
                return scope.multimap(tag, asked.window).get(asked.map_key)
            case _:
                return scope.multimap(tag, asked.window).keys()

    def append(self, key: beam_fn_api_pb2.StateKey, data: bytes) -> None:
        """Add to a state."""
        kind, asked, scope = self._of(key)
        tag = asked.user_state_id.encode()
        if kind == "bag_user_state":
            scope.bag(tag, asked.window).append(data)
        else:
            scope.multimap(tag, asked.window).put(asked.map_key, data)

    def clear(self, key: beam_fn_api_pb2.StateKey) -> None:
        """Remove all that a state has."""
        kind, asked, scope = self._of(key)
        tag = asked.user_state_id.encode()
        match kind:
            case "bag_user_state":
                scope.bag(tag, asked.window).clear()
            case "multimap_user_state":
                scope.multimap(tag, asked.window).remove(asked.map_key)
            case _:
                scope.multimap(tag, asked.window).clear()

    def _of(self, key: beam_fn_api_pb2.StateKey) -> tuple[str, Any, KeyScope]:
        kind = str(key.WhichOneof("type"))
        asked = getattr(key, kind)
        terms = self._terms(asked.transform_id)
        # The harness tells the key with its length.
        encoded, _ = unprefixed(asked.key)
        return kind, asked, terms.overlay.scope(terms.state_id, encoded)


def is_of_user(key: beam_fn_api_pb2.StateKey) -> bool:
    """Whether a state key is one that ``UserState`` knows."""
    return key.WhichOneof("type") in {
        "bag_user_state",
        "multimap_user_state",
        "multimap_keys_user_state",
    }
