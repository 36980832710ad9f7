"""One slot of one level of a batch job: opens its stages, feeds them, and closes them in order."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sparkdrain.fnapi.harness import Wiring
from sparkdrain.fnapi.merging import WindowMergers
from sparkdrain.fnapi.per_source import harness_outside
from sparkdrain.graph.environments import place_of
from sparkdrain.graph.plan import EdgeId, TransformId
from sparkdrain.harness.bundle import StageBundle
from sparkdrain.shuffle.blocks import encode_report
from sparkdrain.shuffle.complete import Completeness, Producer
from sparkdrain.side_inputs.state import SideInputState
from sparkdrain.stages.batch.balance import Gift, Lending
from sparkdrain.stages.batch.inputs import (
    LentRestrictions,
    groups_by_window,
    input_for,
    parts_of_turn,
)
from sparkdrain.stages.batch.state import SlotState
from sparkdrain.stages.shards.codings import Codings
from sparkdrain.stages.shards.inputs import ImpulseInput, begins_in
from sparkdrain.stages.shards.residuals import Residuals
from sparkdrain.stages.shards.shard import Shard
from sparkdrain.stages.shards.slot import Slot
from sparkdrain.stages.shards.writers import writer_for
from sparkdrain.stages.telling.report import SlotReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from sparkdrain.fnapi.harness import Outside
    from sparkdrain.graph.plan import Edge, Plan, Stage
    from sparkdrain.harness.harness import Harness
    from sparkdrain.lines.line import Endpoint
    from sparkdrain.shuffle.outbox import Outbox
    from sparkdrain.stages.shards.input import Input
    from sparkdrain.stages.shards.source import Source
    from sparkdrain.stages.telling.report import Warned


class BatchSlot:
    """Runs the stages of ``level`` over the records of one slot, once."""

    def __init__(
        self,
        plan: Plan,
        level: int,
        slot: int,
        expected: frozenset[Producer],
        outbox: Outbox,
        options: Any,
        open_side_input: Callable[[int], Any],
        scratch: Callable[[], Path],
        balancer: Endpoint | None = None,
        warned: Sequence[Warned] = (),
        outside: Outside | None = None,
    ) -> None:
        self._plan = plan
        self._level = level
        self._slot = slot
        self._outbox = outbox
        self._options = options
        self._open_side_input = open_side_input
        self._state = SlotState(plan, options.memory_bytes, scratch)
        self._balancer = balancer
        self._warned = warned
        self._outside = outside
        self.report = b""
        """A ``SlotReport``, once the slot has finished."""
        self._gifts = 0
        self._handled = 0
        self._complete = Completeness(expected)
        self._codings = Codings.of(plan)
        self._mergers = WindowMergers(self._codings.components, outside, self._is_needed_later)
        of_writers = self._codings.of_writers
        self._writers = {
            edge.id: writer_for(edge, of_writers, outbox, options.block_bytes, groups_by_window)
            for edge in plan.edges_out_of(level)
        }
        self._stages: Slot | None = None

    def run(self, records: Iterator[bytes]) -> None:
        """Process everything.

        Raises:
            TruncatedInput: not all of the input was there.
            Exception: whatever user code raises.
        """
        with self._opened() as stages:
            self._start_harnesses()
            stages.take(records, self._complete)
            inputs = self._complete.verify()
            self._process(stages)
            self._finish(stages, inputs)

    def help(self, gift: Gift) -> None:
        """Process restrictions that another slot gave away; see ``run``."""
        edge = EdgeId(gift.edge)
        with self._opened(only=edge) as stages:
            stages.inputs[edge].take(memoryview(gift.payload))
            self._process(stages)
            # Should the giver be run again, what it gave must not count.
            self._finish(stages, {(self._level, gift.slot): gift.attempt})

    def _process(self, stages: Slot) -> None:
        """Give all inputs their turn, and end the bundles."""
        lending = self._lend(stages)
        first, last = parts_of_turn()
        try:
            for shard in stages.shards:
                shard.process([first] * len(shard.inputs))
                shard.advance([last] * len(shard.inputs))
            for shard in stages.shards:
                shard.finish()
        finally:
            if lending is not None:
                lending.close()
                self._gifts = lending.gifts

    def _lend(self, stages: Slot) -> Lending | None:
        """Let the balancer take restrictions away while the slot works."""
        lent = [
            (edge, input_)
            for edge, input_ in stages.inputs.items()
            if isinstance(input_, LentRestrictions)
        ]
        if self._balancer is None or not lent:
            return None

        def give(fraction: float) -> tuple[int, bytes] | None:
            for edge, input_ in lent:
                payload = input_.give(fraction)
                if payload is not None:
                    return edge, payload
            return None

        return Lending(self._balancer, self._slot, self._outbox.attempt, give)

    @contextmanager
    def _opened(self, only: EdgeId | None = None) -> Iterator[Slot]:
        """The stages of the level, or the one that an edge leads to; all is torn down in the end.

        An error from there counts unless there was one before.
        """
        failed = True
        try:
            self._stages = Slot(
                self._plan,
                self._level,
                self._writers,
                lambda stage: Shard(stage, self._make_harness, deferred=Residuals),
                self._make_input,
                only,
            )
            yield self._stages
            failed = False
        finally:
            self._handled = self.handled()  # while bundles are there to be asked
            error = None if self._stages is None else self._stages.close(self._mergers.close)
            self._state.close()
            if error is not None and not failed:
                raise error

    def _make_input(
        self, stage: Stage, transform: TransformId, edge: Edge | None, source: Source
    ) -> Input:
        if edge is None:
            stages, slots = self._plan.levels[self._level], self._outbox.layout.slots
            return ImpulseInput(source, mine=begins_in(stages, stage, slots) == self._slot)
        return input_for(
            edge,
            stage,
            source,
            self._codings,
            self._options.memory_bytes,
            self._state,
            self._mergers,
        )

    def _make_harness(self, stage: Stage) -> Harness:
        if place_of(self._codings.components, stage.environment):
            assert self._outside is not None, stage.environment
            wiring = Wiring(
                edges={edge.id: edge for edge in self._plan.edges},
                components=self._codings.components,
                windowings=self._codings.context.windowing_strategies,
                writers=self._writers,
                open_side_input=self._open_side_input,
                state_terms=self._state.terms,
                outside=self._outside,
                keep=self._is_needed_later(stage.environment),
            )
            return harness_outside(stage, wiring)
        return StageBundle(
            stage,
            self._codings.components,
            self._writers,
            SideInputState(stage, self._open_side_input),
            self._state.terms,
            compiled=self._options.compiled,
            async_steps=dict(self._options.async_steps),
            flight_bytes=self._options.flight_bytes,
        )

    def _start_harnesses(self) -> None:
        """Start those that later levels need, too, at one time with those of other slots.

        A process takes a second to be ready. A slot that has no elements in this level, and may
        have some in the next, would start its own when the others are done.
        """
        if self._outside is None:
            return
        job, harnesses = self._outside.job, self._outside.harnesses
        components = self._codings.components
        for id_ in {stage.environment for stage in self._plan.levels[self._level]}:
            if place_of(components, id_) and self._is_needed_later(id_):
                harnesses.give_back(harnesses.lend(job, id_, components.environments[id_]))

    def _is_needed_later(self, environment: str) -> bool:
        later = self._plan.levels[self._level + 1 :]
        return any(stage.environment == environment for level in later for stage in level)

    def _finish(self, stages: Slot, inputs: dict[Producer, int]) -> None:
        outbox = self._outbox
        stages.flush()
        outbox.end()
        for shard in stages.shards:
            shard.finalize()
        self.report = SlotReport(
            self._level,
            self._slot,
            outbox.attempt,
            inputs,
            dict(outbox.side_bytes),
            stages.metrics(),
            sum(writer.elements for writer in self._writers.values()),
            outbox.sent_bytes,
            sum(input_.spilled for input_ in stages.in_turn()),
            self._gifts,
            self.handled(),
            tuple(self._warned),
        ).encode()
        outbox.send(outbox.layout.reports, encode_report(self._level, self._slot, self.report))

    def handled(self) -> int:
        """How many elements the busiest PCollection of each stage has had; from any thread."""
        shards = [] if self._stages is None else list(self._stages.shards)
        opened = [shard.opened for shard in shards]
        handled = sum(harness.handled() for harness in opened if harness is not None)
        return max(self._handled, handled)
