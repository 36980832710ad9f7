"""Stages for a harness that takes the elements of one source in a bundle, as Go's does.

A stage that several sources flow into is cut: each source has a harness of its own for what is
reached from it. What is behind a Flatten is in each of them.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from apache_beam.portability.api import beam_runner_api_pb2
from typing_extensions import override

from sparkdrain.fnapi.harness import FnHarness, OutsideHarness
from sparkdrain.graph import urns
from sparkdrain.graph.environments import is_go
from sparkdrain.graph.readers import protos_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apache_beam.portability.api import metrics_pb2

    from sparkdrain.fnapi.harness import Wiring
    from sparkdrain.graph.plan import Stage, TransformId
    from sparkdrain.harness.harness import (
        Harness,
        Inlet,
        KeyedEdge,
        KeyedInlet,
        RestrictionInlet,
    )


def harness_outside(stage: Stage, wiring: Wiring) -> Harness:
    """The harness of a stage that runs outside of the slot's process."""
    environment = wiring.components.environments[stage.environment]
    if len(stage.sources) > 1 and is_go(environment):
        return HarnessPerSource(stage, wiring)
    return FnHarness(stage, wiring)


def _reached(stage: Stage, source: TransformId) -> Stage:
    """The part of a stage that the elements of a source reach."""
    protos = protos_of(stage)
    for side in stage.side_inputs:
        del protos[side.transform].inputs[side.tag]
    ids, reached = {source}, set(protos[source].outputs.values())
    while True:
        further = {
            id_
            for id_, proto in protos.items()
            if id_ not in ids and reached.intersection(proto.inputs.values())
        }
        if not further:
            break
        ids |= further
        reached.update(*(protos[id_].outputs.values() for id_ in further))
    return replace(
        stage,
        transforms=tuple(
            (id_, _without(data, reached)) for id_, data in stage.transforms if id_ in ids
        ),
        sources=tuple(each for each in stage.sources if each[0] == source),
        sinks=tuple(sink for sink in stage.sinks if sink[0] in ids),
        side_inputs=tuple(side for side in stage.side_inputs if side.transform in ids),
    )


def _without(data: bytes, reached: set[str]) -> bytes:
    """A transform; if it is a Flatten, without inputs that are not reached."""
    proto = beam_runner_api_pb2.PTransform.FromString(data)
    if proto.spec.urn == urns.FLATTEN:
        for tag in [tag for tag, pcollection in proto.inputs.items() if pcollection not in reached]:
            del proto.inputs[tag]
    return proto.SerializeToString()


class HarnessPerSource(OutsideHarness):
    """Runs each part of a stage in a harness of its own."""

    def __init__(self, stage: Stage, wiring: Wiring) -> None:
        self._of: dict[TransformId, FnHarness] = {}
        try:
            for source, _ in stage.sources:
                self._of[source] = FnHarness(_reached(stage, source), wiring)
        except BaseException:
            self.teardown()
            raise

    @override
    def finish(self, *, drained: bool = False) -> None:
        for each in self._of.values():
            each.finish(drained=drained)

    @override
    def teardown(self) -> None:
        for each in self._of.values():
            each.teardown()

    @override
    def inlet(self, source: TransformId) -> Inlet:
        return self._of[source].inlet(source)

    @override
    def keyed(self, edge: KeyedEdge) -> KeyedInlet:
        return self._of[edge.source].keyed(edge)

    @override
    def restrictions(self, source: TransformId, transform: TransformId) -> RestrictionInlet:
        return self._of[source].restrictions(source, transform)

    @override
    def forget_side_inputs(self) -> None:
        for each in self._of.values():
            each.forget_side_inputs()

    @property
    @override
    def needs_finalization(self) -> bool:
        return any(each.needs_finalization for each in self._of.values())

    @override
    def finalize(self) -> None:
        for each in self._of.values():
            each.finalize()

    @override
    def take_finalizers(self) -> list[tuple[str, Callable[[], object]]]:
        return list(chain.from_iterable(each.take_finalizers() for each in self._of.values()))

    @override
    def take_refused(self) -> list[tuple[str, str, int]]:
        return list(chain.from_iterable(each.take_refused() for each in self._of.values()))

    @override
    def infos(self) -> list[metrics_pb2.MonitoringInfo]:
        return list(chain.from_iterable(each.infos() for each in self._of.values()))

    @override
    def handled(self) -> int:
        return sum(each.handled() for each in self._of.values())

    @override
    def at_work(self) -> tuple[str, bytes | None]:
        return next((at for each in self._of.values() if (at := each.at_work())[0]), ("", None))

    @override
    def stack(self) -> Sequence[tuple[str, int, str]]:
        return next((found for each in self._of.values() if (found := each.stack())), ())
