"""Where the elements of a KEYED edge enter a stage that runs in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import override

from sparkdrain.harness.harness import KeyedInlet
from sparkdrain.harness.keyed.due import Due
from sparkdrain.harness.keyed.feeding import BeamFeeder, CallingFeeder
from sparkdrain.harness.keyed.in_flight import DueInFlight, FlightFeeder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sparkdrain.graph.plan import TransformId
    from sparkdrain.harness.harness import Elements, KeyedEdge
    from sparkdrain.harness.keyed.due import StatefulDoFn
    from sparkdrain.harness.limits import UpTo
    from sparkdrain.harness.operations import SourceOperation


class CalledInlet(KeyedInlet):
    """Calls the stateful DoFns behind an edge, by generated code where possible, else by Beam.

    Args:
        edge: the edge.
        source: takes windowed values for all consumers of the edge.
        dofns: those that use state or timers, by transform.
    """

    def __init__(
        self,
        edge: KeyedEdge,
        source: SourceOperation,
        dofns: Mapping[TransformId, StatefulDoFn],
    ) -> None:
        self._decode_key = edge.decode_key
        self._dofns = dofns
        self._feeder = _feeder(edge, source, list(dofns.values()))

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
        dofn = self._dofns.get(transform)
        if dofn is None:  # it declares state, and uses none
            return True
        kind = Due if dofn.flight is None else DueInFlight
        return kind(dofn, up_to, self._decode_key).fire()


def _feeder(
    edge: KeyedEdge, source: SourceOperation, dofns: Sequence[StatefulDoFn]
) -> BeamFeeder | CallingFeeder | FlightFeeder:
    for dofn in dofns:
        if dofn.calls is not None:  # then the edge feeds no other transform
            return CallingFeeder(dofn.calls, dofn.context, edge.decode_key, edge.coding)
    flights = [dofn.flight for dofn in dofns if dofn.flight is not None]
    if flights and list(source.targets) == flights[:1]:
        return FlightFeeder(source, flights[0], dofns[0].context, edge.decode_key)
    others = [dofn.context for dofn in dofns if dofn.flight is None]
    return BeamFeeder(source.feed_windowed, others, edge.decode_key, flights)
