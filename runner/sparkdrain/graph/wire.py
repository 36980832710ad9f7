"""The coders by which harnesses outside of the slot's process write and read elements.

Parts that a slot need not tell apart are length-prefixed bytes to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sparkdrain.errors import Unsupported
from sparkdrain.graph.beam import common_urns
from sparkdrain.graph.plan import EdgeKind
from sparkdrain.graph.window_fns import has_own_windows, strategy_of

if TYPE_CHECKING:
    from apache_beam.portability.api import beam_runner_api_pb2

    from sparkdrain.graph.plan import Edge

DELIMITED: Final = frozenset({common_urns.coders.BYTES.urn, common_urns.coders.STRING_UTF8.urn})
"""Coders that write the length of a value before it wherever something may follow."""
_KV: Final[str] = common_urns.coders.KV.urn
_ITERABLE: Final[str] = common_urns.coders.ITERABLE.urn
STATE_BACKED_ITERABLE: Final[str] = common_urns.coders.STATE_BACKED_ITERABLE.urn
"""An iterable whose values, or the rest of them, are read on the state channel."""
_PREFIX: Final[str] = common_urns.coders.LENGTH_PREFIX.urn
_TIMER: Final[str] = common_urns.coders.TIMER.urn
_WINDOWED: Final[str] = common_urns.coders.WINDOWED_VALUE.urn
_CUSTOM_WINDOW: Final[str] = common_urns.coders.CUSTOM_WINDOW.urn


def has_pairs(edge: Edge, components: beam_runner_api_pb2.Components) -> bool:
    """Whether a slot takes the elements of a wired edge apart, into key and value."""
    match edge.kind:
        case EdgeKind.FORWARD | EdgeKind.SPREAD:
            return False
        case EdgeKind.SIDE | EdgeKind.BROADCAST:
            # Readers that look values up and readers that do not share the PCollection's coder.
            id_ = components.pcollections[edge.pcollection].coder_id
            return components.coders[id_].spec.urn == _KV
        case EdgeKind.GROUP | EdgeKind.KEYED:
            return True


class WireCoders:
    """Adds coders to ``components``, each once; their ids tell what they are made of."""

    def __init__(self, components: beam_runner_api_pb2.Components) -> None:
        self._components = components

    def windowed(self, coder: str, pcollection: str) -> str:
        """A coder of elements with timestamp, windows and pane, given the coder of elements."""
        strategy = strategy_of(self._components, pcollection)
        return self._made(_WINDOWED, coder, self.window(strategy))

    def window(self, strategy: beam_runner_api_pb2.WindowingStrategy) -> str:
        """The coder of windows. If a slot does not know their class, it reads their end only."""
        coder = strategy.window_coder_id
        if not has_own_windows(strategy, self._components):
            return coder
        return self._made(_CUSTOM_WINDOW, self._made(_PREFIX, coder))

    def whole(self, coder: str) -> str:
        """A coder of elements that are bytes to a slot, with their length before them.

        Java and Python leave a length out that would come twice; Go would write both.
        """
        if self._components.coders[coder].spec.urn in DELIMITED:
            return coder
        return self._made(_PREFIX, coder)

    def of_values(self, coder: str) -> str:
        """The coder of elements within a stage.

        To Java's harness, a coder of windowed values is that of what such values have, and not
        that of elements that are such values.
        """
        is_windowed = self._components.coders[coder].spec.urn == _WINDOWED
        return self.whole(coder) if is_windowed else coder

    def pair(self, coder: str) -> str:
        """A coder of pairs whose key and value are bytes to a slot."""
        key, value = self._parts(coder)
        return self._made(_KV, self.whole(key), self.whole(value))

    def group(self, coder: str, *, in_state: bool = False) -> str:
        """A coder of what a GroupByKey makes of elements that have this coder.

        Args:
            in_state: whether values may be left out, which are read on the state channel then.
        """
        key, value = self._parts(coder)
        iterable = STATE_BACKED_ITERABLE if in_state else _ITERABLE
        return self._made(_KV, self.whole(key), self._made(iterable, self.whole(value)))

    def merging(self, strategy: beam_runner_api_pb2.WindowingStrategy) -> tuple[str, str]:
        """The coders of what ``beam:transform:merge_windows:v1`` takes, and of what it gives.

        It takes a name with windows. It gives the name with the windows that stay, and with new
        windows, each beside the windows that it replaces.
        """
        window = self.window(strategy)
        name, several = self._made(common_urns.coders.BYTES.urn), self._made(_ITERABLE, window)
        replaced = self._made(_ITERABLE, self._made(_KV, window, several))
        merged = self._made(_KV, several, replaced)
        return self._made(_KV, name, several), self._made(_KV, name, merged)

    def strings(self, coder: str) -> tuple[str, str]:
        """The coders of what ``beam:transform:to_string:v1`` takes, and of what it gives.

        It takes a name with an element, and gives the name with the element as a text.
        """
        name, text = self._made(common_urns.coders.BYTES.urn), common_urns.coders.STRING_UTF8.urn
        return self._made(_KV, name, coder), self._made(_KV, name, self._made(text))

    def timer(self, coder: str) -> str:
        """A coder of timers whose key is bytes to a slot, given their coder."""
        key, window = self._components.coders[coder].component_coder_ids
        return self._made(_TIMER, self.whole(key), window)

    def _parts(self, coder: str) -> tuple[str, str]:
        spec = self._components.coders[coder]
        if spec.spec.urn != _KV:
            message = (
                f"Elements with the coder {spec.spec.urn or coder!r} go to a GroupByKey or a "
                f"stateful DoFn, which take pairs ({_KV}). Give the PCollection a type of pairs."
            )
            raise Unsupported(message)
        key, value = spec.component_coder_ids
        return key, value

    def _made(self, urn: str, *parts: str) -> str:
        id_ = f"sparkdrain:{urn}({','.join(parts)})"
        coder = self._components.coders[id_]
        coder.spec.urn = urn
        coder.component_coder_ids[:] = parts
        return id_
