"""One stage's part in one slot, over the life of a job."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from sparkdrain.metrics.merge import merge
from sparkdrain.step_notes import read_by
from sparkdrain.watermarks.frontier import BEGIN, output_frontier

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apache_beam.portability.api import metrics_pb2

    from sparkdrain.graph.plan import Stage
    from sparkdrain.harness.bundle import StageBundle
    from sparkdrain.rounds.finalizers import Finalizers
    from sparkdrain.rounds.inputs import Input, Turn


# What Beam puts before the name that a user has given to a timer.
_TIMER: Final = "ts-"


class RoundShard:
    """A stage's DoFns, set up once, and its inputs.

    Every round in which there is something to do is one bundle. After a round that was undone the
    DoFns are made anew: they may remember what never happened.

    Args:
        stage: the stage.
        make_bundle: sets its DoFns up.
        counted: its metrics up to now.
        finalizers: take what is to be run when a round counts.
        has_drain_hook: whether a DoFn of it wants to know when it is drained, also where none was
            set up.
    """

    def __init__(
        self,
        stage: Stage,
        make_bundle: Callable[[Stage], StageBundle],
        counted: list[metrics_pb2.MonitoringInfo],
        finalizers: Finalizers,
        has_drain_hook: Callable[[Stage], bool],
    ) -> None:
        self.stage = stage
        self.inputs: list[tuple[int | None, Input]] = []
        self.steps: dict[int | None, str] = {}
        """By edge, the step that reads it."""
        self.counted = counted
        """The metrics up to the last commit."""
        self._before = self._infos = counted
        self._make_bundle = make_bundle
        self._finalizers = finalizers
        self._has_drain_hook = has_drain_hook
        self._bundle: StageBundle | None = None
        self._started = False

    def open(self) -> StageBundle:
        """The bundle of this round, started."""
        if self._bundle is None:
            self._bundle = self._make_bundle(self.stage)
            self._bundle.start()
            self._started = True
        elif not self._started:
            self._bundle.enter()
            self._bundle.resume()
            self._started = True
        self._bundle.enter()
        return self._bundle

    @property
    def opened(self) -> StageBundle | None:
        """The bundle, if there ever was an element."""
        return self._bundle

    def resume_due(self) -> None:
        """Nothing: what a stage puts off waits for a later round."""

    def frontier(self, before: int, turns: list[Turn]) -> int:
        """The output frontier after the inputs had these turns."""
        return output_frontier(
            before,
            (
                (turn.after, input_.hold())
                for (_, input_), turn in zip(self.inputs, turns, strict=True)
            ),
        )

    def holds(self) -> list[tuple[str, str, int]]:
        """What holds the output frontier back: stage, reason, time."""
        return [
            (self.stage.name, input_.reason, input_.hold())
            for _, input_ in self.inputs
            if input_.reason
        ]

    def wake(self) -> int | None:
        """See ``Input.wake``."""
        waits = not self._finalizers.durable
        if waits and self._bundle is not None and self._bundle.needs_finalization:
            # Only the next round tells that this one was committed.
            return BEGIN
        wakes = [wake for _, input_ in self.inputs if (wake := input_.wake()) is not None]
        return min(wakes, default=None)

    def run(self, turns: list[Turn]) -> None:
        """Give all inputs their turns, and end the bundle."""
        self.process(turns)
        self.advance(turns)
        self.finish()

    def process(self, turns: Sequence[Turn]) -> None:
        """Have all inputs process what came."""
        for (edge, input_), turn in zip(self.inputs, turns, strict=True):
            with self._reading(edge):
                input_.process(turn)

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

    def drain(self) -> None:
        """Tell DoFns that they are drained, and end the bundle."""
        if not self.awaits_drain:
            return
        hooks = self.open().drain_hooks()
        for hook in hooks:
            hook.is_due = True
        self.finish()
        for hook in hooks:
            hook.is_due = False

    def finish(self) -> None:
        """End the round's bundle."""
        if self._started and self._bundle is not None:
            self._bundle.enter()
            self._bundle.finish()
            self._started = False

    def take_refused(self) -> list[tuple[str, str, int]]:
        """Timers that a drain has refused since the last call: transform, family, how many."""
        if self._bundle is None:
            return []
        refused = [
            (transform, family.decode().removeprefix(_TIMER), count)
            for transform, context in self._bundle.states.items()
            for family, count in context.bound.refused.items()
        ]
        for context in self._bundle.states.values():
            context.bound.refused.clear()
        return refused

    def commit(self) -> None:
        """What the last round did counts."""
        self.counted = self._infos

    def take_finalizers(self) -> list[tuple[str, Callable[[], object]]]:
        """What the round has registered to be run when it counts: (transform id, callback)."""
        return [] if self._bundle is None else self._bundle.take_finalizers()

    def acknowledgement(self, transform: str, data: str) -> Callable[[], object]:
        """Recreate a finalizer that a DoFn of the stage registered before the job was resumed.

        Args:
            transform: id of the DoFn's transform.
            data: what the DoFn wrote down of the finalizer.
        """
        made: Callable[[], object] = self.open().dofns[transform].dofn.acknowledgement(data)
        return made

    def count(self, info: metrics_pb2.MonitoringInfo) -> None:
        """Add to the metrics what no DoFn counts."""
        self._before = merge([*self._before, info])

    def infos(self) -> list[metrics_pb2.MonitoringInfo]:
        """All metrics, over the stage's life."""
        self._infos = self._before
        if self._bundle is not None:
            self._infos = merge([*self._before, *self._bundle.infos()])
        return self._infos

    def close(self) -> None:
        """Tear everything down."""
        bundle, self._bundle = self._bundle, None
        with contextlib.ExitStack() as closing:
            if bundle is not None:
                closing.callback(bundle.teardown)
            for _, input_ in self.inputs:
                closing.callback(input_.close)
