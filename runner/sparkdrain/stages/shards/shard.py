"""One stage's part in one slot, for one bundle or over the life of a job."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, Protocol

from apache_beam.metrics import monitoring_infos

from sparkdrain.drain.progress import Hold
from sparkdrain.metrics.merge import merge
from sparkdrain.notes import read_by
from sparkdrain.watermarks.frontier import BEGIN, END, output_frontier

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apache_beam.portability.api import metrics_pb2

    from sparkdrain.graph.plan import Stage, TransformId
    from sparkdrain.harness.harness import Harness
    from sparkdrain.stages.shards.input import Input
    from sparkdrain.stages.shards.residuals import Residuals
    from sparkdrain.stages.shards.turn import Turn


_PCOLLECTION: Final = monitoring_infos.PCOLLECTION_LABEL
_IN_FLIGHT: Final = "elements in flight"


class InFlight(Protocol):
    """Elements of a stage that rounds leave in flight, see ``rounds.carried``."""

    def begin(self, now: int, *, is_on: bool) -> None:
        """A round begins, at a processing time; elements may outlast it or not."""

    def end(self) -> None:
        """The bundle of the round has ended."""

    def resume(self, harness: Harness) -> None:
        """Have a harness that was just made go on with them."""

    def __len__(self) -> int: ...

    def hold(self) -> int:
        """The earliest time of one of them; END if there is none."""

    def waits(self, transform: TransformId) -> bool:
        """Whether timers of a DoFn wait for them."""

    def wake(self) -> int | None:
        """The processing time at which to look after them."""


class Shard:
    """A stage's DoFns, set up once, and its inputs.

    The first element opens the bundle. So a DoFn is never set up, nor is its ``finish_bundle``
    called, where there is nothing for it. Every round in which there is something to do is one
    bundle. After a round that was undone the DoFns are made anew: they may remember what never
    happened.

    Args:
        counted: its metrics up to now.
        has_drain_hook: whether a DoFn of it wants to know when it is drained, also where none was
            set up.
        deferred: resumes in this very bundle what DoFns put off. Without it, inputs do that in a
            later round.
        carried: what rounds leave in flight; None if each waits for all of its elements.
    """

    def __init__(
        self,
        stage: Stage,
        make_harness: Callable[[Stage], Harness],
        counted: list[metrics_pb2.MonitoringInfo] | None = None,
        has_drain_hook: Callable[[Stage], bool] = lambda _: False,
        deferred: Callable[[Harness], Residuals] | None = None,
        carried: InFlight | None = None,
    ) -> None:
        self.stage = stage
        self.inputs: list[tuple[int | None, Input]] = []
        self.steps: dict[int | None, str] = {}
        """The step that reads an edge, by edge."""
        self.counted = counted or []
        """The metrics up to the last commit."""
        self._before = self._infos = self.counted
        self._told: list[metrics_pb2.MonitoringInfo] | None = None
        self._serialized: list[bytes] | None = None
        self._make_harness = make_harness
        self._has_drain_hook = has_drain_hook
        self._defer = deferred
        self._deferred: Residuals | None = None
        self._harness: Harness | None = None
        self._started = False
        self.carried = carried

    def open(self) -> Harness:
        """What runs the stage, with the bundle of this round started."""
        harness = self._harness
        if harness is None:
            harness = self._harness = self._make_harness(self.stage)
            if self._defer is not None:
                self._deferred = self._defer(harness)
        if not self._started:
            harness.start()
            self._started = True
        harness.enter()
        if self.carried is not None:
            self.carried.resume(harness)
        return harness

    @property
    def opened(self) -> Harness | None:
        """What runs the stage, if there ever was an element; may be asked for from any thread."""
        return self._harness

    def resume_due(self) -> None:
        """Called between elements."""
        if self._deferred is not None:
            self._deferred.resume_due()

    def frontier(self, before: int, turns: list[Turn]) -> int:
        """The output frontier after the inputs had these turns."""
        held = self.held()
        return output_frontier(
            before,
            (
                (turn.after, min(input_.hold(), held))
                for (_, input_), turn in zip(self.inputs, turns, strict=True)
            ),
        )

    def held(self) -> int:
        """The earliest time of what the round leaves in flight; END if it leaves nothing."""
        return END if self.carried is None else self.carried.hold()

    def waits(self, transform: TransformId) -> bool:
        """Whether timers of a DoFn wait for elements in flight."""
        return self.carried is not None and self.carried.waits(transform)

    def holds(self) -> list[Hold]:
        """What holds the output frontier back; a time at the end holds nothing."""
        holds = [
            Hold(self.stage.name, input_.reason, input_.hold())
            for _, input_ in self.inputs
            if input_.reason
        ]
        return [*holds, Hold(self.stage.name, _IN_FLIGHT, self.held())]

    def wake(self, *, durable: bool) -> int | None:
        """The earliest processing time at which there is something to do; None: never.

        Args:
            durable: whether finalizers wait for a checkpoint, and not for the next round.
        """
        if not durable and self._harness is not None and self._harness.needs_finalization:
            # Only the next round tells that this one was committed.
            return BEGIN
        wakes = [wake for _, input_ in self.inputs if (wake := input_.wake()) is not None]
        if self.carried is not None and (wake := self.carried.wake()) is not None:
            wakes.append(wake)
        return min(wakes, default=None)

    def run(self, turns: list[Turn]) -> None:
        """Give all inputs their turns, and end the bundle."""
        self.process(turns)
        self.advance(turns)
        self.finish()

    def begin(self, now: int, *, carries: bool) -> None:
        """A round begins, before any element comes.

        Args:
            now: processing time, microseconds.
            carries: whether it may leave elements in flight.
        """
        if self.carried is not None:
            self.carried.begin(now, is_on=carries)

    def process(self, turns: Sequence[Turn]) -> None:
        """Have all inputs process what came."""
        if self.carried:
            self.open()
        for (edge, input_), turn in zip(self.inputs, turns, strict=True):
            with self._reading(edge):
                input_.process(turn)
        if self._started and self._harness is not None:
            # What is fired next may rely on all elements before it.
            self._harness.enter()
            self._harness.land()

    def advance(self, turns: Sequence[Turn]) -> None:
        """Have all inputs fire what is due."""
        for (edge, input_), turn in zip(self.inputs, turns, strict=True):
            with self._reading(edge):
                input_.advance(turn)

    def _reading(self, edge: int | None) -> contextlib.AbstractContextManager[None]:
        step = self.steps.get(edge)
        return contextlib.nullcontext() if step is None else read_by(step)

    @property
    def awaits_drain(self) -> bool:
        """Whether there is a DoFn that wants to know when it is drained.

        Also before it is set up: after a recovery, nothing may come that would do so.
        """
        return self._has_drain_hook(self.stage)

    def tell_drained(self) -> None:
        """Tell DoFns that they are drained, and end the bundle."""
        if self.awaits_drain:
            self.open()
            self.finish(drained=True)

    def finish(self, *, drained: bool = False) -> None:
        """End the round's bundle; see ``Harness.finish``."""
        if self._started and self._harness is not None:
            self._harness.enter()
            if self._deferred is not None:
                self._deferred.resume_all()
            self._harness.finish(drained=drained)
            self._started = False
        if self.carried is not None:
            self.carried.end()

    def finalize(self) -> None:
        """Run the finalizers of the bundle."""
        if self._harness is not None:
            self._harness.finalize()

    def take_refused(self) -> list[tuple[str, str, int]]:
        """Timers that a drain has refused since the last call: transform, family, how many."""
        return [] if self._harness is None else self._harness.take_refused()

    def commit(self) -> None:
        """What the last round did counts."""
        self.counted = self._infos

    def take_finalizers(self) -> list[tuple[str, Callable[[], object]]]:
        """What the round has registered to be run when it counts: (transform id, callback)."""
        return [] if self._harness is None else self._harness.take_finalizers()

    def acknowledgement(self, transform: str, data: str) -> Callable[[], object]:
        """Recreate a finalizer; see ``Harness.acknowledgement``."""
        return self.open().acknowledgement(transform, data)

    def count(self, info: metrics_pb2.MonitoringInfo) -> None:
        """Add to the metrics what no DoFn counts."""
        self._before = merge([*self._before, info])
        self._serialized = None

    def metrics(self) -> list[bytes]:
        """All metrics over the stage's life, serialized ``MonitoringInfo`` protos.

        What another stage counts is left out. In a round without elements this costs next to
        nothing: what was told last is still true.
        """
        told = self._before if self._harness is None else self._harness.infos()
        if self._serialized is None or told is not self._told:
            self._told = self._infos = told
            if self._harness is not None and self._before:
                self._infos = merge([*self._before, *told])
            self._serialized = [
                info.SerializeToString()
                for info in self._infos
                if info.labels.get(_PCOLLECTION) not in self.stage.counted_elsewhere
            ]
        return self._serialized

    def close(self) -> None:
        """Tear everything down."""
        harness, self._harness = self._harness, None
        with contextlib.ExitStack() as closing:
            if harness is not None:
                closing.callback(harness.teardown)
            for _, input_ in self.inputs:
                closing.callback(input_.close)
