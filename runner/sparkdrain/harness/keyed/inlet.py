"""Where the elements of a KEYED edge enter a stage that runs in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import override

from sparkdrain.harness.harness import KeyedInlet
from sparkdrain.harness.keyed.due import Due
from sparkdrain.harness.keyed.feeding import BeamFeeder, CallingFeeder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sparkdrain.graph.plan import TransformId
    from sparkdrain.harness.harness import Elements, KeyedEdge
    from sparkdrain.harness.keyed.due import StatefulDoFn
    from sparkdrain.harness.limits import UpTo


class CalledInlet(KeyedInlet):
    """Calls the stateful DoFns behind an edge, by generated code where possible, else by Beam.

    Args:
        edge: the edge.
        feed: takes windowed values for all consumers of the edge.
        dofns: those with state or timers, by transform.
    """

    def __init__(
        self,
        edge: KeyedEdge,
        feed: Callable[[list[Any]], None],
        dofns: Mapping[TransformId, StatefulDoFn],
    ) -> None:
        self._decode_key = edge.decode_key
        self._dofns = dofns
        contexts = [dofn.context for dofn in dofns.values()]
        self._feeder: BeamFeeder | CallingFeeder = BeamFeeder(feed, contexts, edge.decode_key)
        for dofn in dofns.values():
            if dofn.calls is not None:  # then the edge feeds no other transform
                self._feeder = CallingFeeder(dofn.calls, dofn.context, edge.decode_key, edge.coding)

    @property
    @override
    def takes_pieces(self) -> bool:
        return self._feeder.takes_pieces

    @override
    def feed(
        self,
        keys: Iterable[tuple[bytes, Any]],
        elements: Elements,
        is_late: Callable[[Any], bool],
    ) -> None:
        self._feeder.feed(keys, elements, is_late)

    @override
    def fire(self, transform: TransformId, up_to: UpTo) -> bool:
        return Due(self._dofns[transform], up_to, self._decode_key).fire()
