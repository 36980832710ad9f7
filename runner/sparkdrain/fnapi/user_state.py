"""Answers what an SDK harness asks of the state of stateful DoFns, from the slot's overlay."""

from __future__ import annotations

import struct
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from apache_beam import coders

from sparkdrain.fnapi.elements import unprefixed
from sparkdrain.fnapi.errors import UnknownState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from apache_beam.portability.api import beam_fn_api_pb2

    from sparkdrain.fnapi.lives import WindowLives
    from timers_state import KeyScope
    from timers_state.cells.multimap import Multimap

# Keys whose values are counted together.
_COUNTED: Final = 100
_COUNT: Final = struct.Struct(">i")
# Of an ordered list: sort key, and the item with its length. Python's SDK writes them so, and Go's
# because its coder for items says so.
_ENTRY: Final = coders.TupleCoder((coders.VarIntCoder(), coders.BytesCoder())).get_impl()


class UserState:
    """The state of the DoFns of a stage. All values stay as the harness has encoded them.

    Each method raises ``UnknownState`` if the stage has no such state.

    Args:
        lives: what forgets the windows of a stateful DoFn, by its transform id.
        count: how many values there are in several parts of the multimap of a transform, by the
            names of both.
    """

    def __init__(
        self,
        lives: Mapping[str, WindowLives],
        count: Callable[[str, str, Sequence[bytes]], Sequence[int]],
    ) -> None:
        self._lives = lives
        self._count = count

    def read(self, key: beam_fn_api_pb2.StateKey) -> Iterator[bytes]:
        """The content of a state, in pieces."""
        kind, asked, scope = self._of(key)
        tag = asked.user_state_id.encode()
        match kind:
            case "bag_user_state":
                return chain.from_iterable(scope.bag(tag, asked.window).segments())
            case "multimap_user_state":
                return scope.multimap(tag, asked.window).get(asked.map_key)
            case "ordered_list_user_state":
                found = scope.ordered_list(tag, asked.window).read(*_bounds(asked))
                return map(_ENTRY.encode_nested, found)
            case "multimap_entries_user_state":
                count = partial(self._count, asked.transform_id, asked.user_state_id)
                return _entries(scope.multimap(tag, asked.window), count)
            case _:
                return scope.multimap(tag, asked.window).keys()

    def append(self, key: beam_fn_api_pb2.StateKey, data: bytes) -> None:
        """Add to a state."""
        kind, asked, scope = self._of(key)
        tag = asked.user_state_id.encode()
        self._lives[asked.transform_id].keep(scope.key, asked.window)
        match kind:
            case "bag_user_state":
                scope.bag(tag, asked.window).append(data)
            case "ordered_list_user_state":
                entries = scope.ordered_list(tag, asked.window)
                for sort_key, item in _ENTRY.decode_all(data):
                    entries.append(sort_key, item)
            case _:
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
            case "ordered_list_user_state":
                scope.ordered_list(tag, asked.window).clear_range(*_bounds(asked))
            case _:
                scope.multimap(tag, asked.window).clear()

    def _of(self, key: beam_fn_api_pb2.StateKey) -> tuple[str, Any, KeyScope]:
        kind = str(key.WhichOneof("type"))
        asked = getattr(key, kind)
        lives = self._lives.get(asked.transform_id)
        if lives is None or not asked.key:
            message = f"{asked.transform_id!r} keeps no state here for the key {asked.key!r}"
            raise UnknownState(message)
        # The harness tells the key with its length.
        encoded, _ = unprefixed(asked.key)
        return kind, asked, lives.scope(encoded)


def _entries(
    multimap: Multimap, count: Callable[[Sequence[bytes]], Sequence[int]]
) -> Iterator[bytes]:
    """Each key with its values, as the coder of pairs of a key and an iterable has them."""
    keys = iter(multimap.keys())
    while some := list(islice(keys, _COUNTED)):
        parts = [b"".join(multimap.get(key)) for key in some]
        for key, number, data in zip(some, count(parts), parts, strict=True):
            yield b"".join((key, _COUNT.pack(number), data))


def _bounds(asked: Any) -> tuple[int, int]:
    """From which sort key, and up to which, an ordered list is asked for."""
    return asked.range.start, asked.range.end


def is_of_user(key: beam_fn_api_pb2.StateKey) -> bool:
    """Whether a state key is one that ``UserState`` knows."""
    return key.WhichOneof("type") in {
        "bag_user_state",
        "multimap_user_state",
        "multimap_keys_user_state",
        "multimap_entries_user_state",
        "ordered_list_user_state",
    }
