"""One slot of one level, over the life of a job: runs its part of every round."""

from __future__ import annotations

import contextlib
import random
import time
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from sparkdrain.fnapi.harness import Wiring
from sparkdrain.fnapi.merging import WindowMergers
from sparkdrain.fnapi.per_source import harness_outside
from sparkdrain.graph.environments import place_of
from sparkdrain.graph.plan import EdgeKind, Plan, Stage
from sparkdrain.harness.bundle import StageBundle
from sparkdrain.harness.drain_hook import has_drain_hook
from sparkdrain.harness.step_book import StepBook
from sparkdrain.hosts.lookout import NOTES
from sparkdrain.panes.triggered import needs_no_times
from sparkdrain.rounds.carried import Carried
from sparkdrain.rounds.context import Context
from sparkdrain.rounds.keyed.input import state_terms
from sparkdrain.rounds.sides.sides import Sides
from sparkdrain.rounds.slots.draining import Draining
from sparkdrain.rounds.slots.input_for import InputMaker
from sparkdrain.rounds.slots.report import SlotAccount
from sparkdrain.rounds.slots.run import SlotRun
from sparkdrain.rounds.slots.version import StateVersion
from sparkdrain.shuffle.blocks import encode_report
from sparkdrain.shuffle.outbox import Outbox
from sparkdrain.side_inputs.state import SideInputState
from sparkdrain.stages.shards.codings import Codings
from sparkdrain.stages.shards.input import Inside
from sparkdrain.stages.shards.shard import Shard
from sparkdrain.stages.shards.slot import Slot
from sparkdrain.stages.shards.turn import Budget
from sparkdrain.stages.shards.writers import writer_for
from timers_state import Overlay, RoundStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from apache_beam.portability.api import metrics_pb2

    from sparkdrain.checkpoints.upload import Uploader
    from sparkdrain.fnapi.harness import Outside
    from sparkdrain.harness.harness import Harness
    from sparkdrain.rounds.messages import Opened, RoundHeader, RoundReport
    from sparkdrain.shuffle.outbox import ShuffleLayout, SparkPartition
    from sparkdrain.stages.shards.input import Input
    from sparkdrain.stages.shards.task_options import TaskOptions


class RoundSlot:
    """Runs the stages of ``level`` in one slot, round after round.

    All that it remembers from round to round is in its ``StateVersion`` (undone and committed as a
    whole) and in its DoFns (thrown away if a round is undone).
    """

    def __init__(
        self,
        plan: Plan,
        level: int,
        slot: int,
        layout: ShuffleLayout,
        options: TaskOptions,
        directory: Path,
        clock: Callable[[], float] = time.monotonic,
        uploader: Uploader | None = None,
        restored: RoundReport | None = None,
        outside: Outside | None = None,
        opened: Opened | None = None,
    ) -> None:
        self._opened = opened
        self._book = StepBook(directory / NOTES)
        self._clock = clock
        where = state_directory(directory, level)
        store = RoundStore(where) if restored is None else RoundStore.take_up(where)
        self.overlay = Overlay(store, state_budget(plan, options))
        codings = Codings.of(plan)
        self._outside = outside
        self._now = 0
        self._context = Context(
            plan, level, slot, layout.slots, options, directory, codings, self.overlay
        )
        self._has_drain_hook = cache(self._find_drain_hook)
        attempt = None if restored is None else restored.attempt
        self._version = StateVersion(self._context, uploader, attempt)
        self._account = SlotAccount(self._context, restored)
        self._outbox = Outbox(layout, level, slot, 0, _nowhere)
        self._build([[] for _ in plan.levels[level]])

    def _build(self, counted: list[list[metrics_pb2.MonitoringInfo]]) -> None:
        """Make everything that remembers nothing (or nothing that counts)."""
        context, by_stage = self._context, iter(counted)
        plan, level = context.plan, context.level
        size, codings = context.options.block_bytes, context.codings.of_writers
        self._writers = {
            edge.id: writer_for(edge, codings, self._outbox, size, needs_no_times)
            for edge in plan.edges_out_of(level)
        }
        self.sides = Sides(context, plan.edges_into(level))
        self._mergers = WindowMergers(context.codings.components, self._outside, lambda _: True)
        self._slot = Slot(
            plan,
            level,
            self._writers,
            lambda stage: self._make_shard(stage, next(by_stage)),
            InputMaker(context, self.sides, self._version.coverage, self._mergers, self.inputs),
        )
        self._slot.inputs |= self.sides.streams

    def _make_shard(self, stage: Stage, counted: list[metrics_pb2.MonitoringInfo]) -> Shard:
        carried = None if self._is_outside(stage) else Carried(self._context, stage)
        make_harness = partial(self._make_harness, carried)
        return Shard(stage, make_harness, counted, self._has_drain_hook, carried=carried)

    def _is_outside(self, stage: Stage) -> bool:
        return bool(place_of(self._context.codings.components, stage.environment))

    def _find_drain_hook(self, stage: Stage) -> bool:
        return not self._is_outside(stage) and has_drain_hook(stage, self._context.codings.context)

    def _make_harness(self, carried: Carried | None, stage: Stage) -> Harness:
        context = self._context
        terms = state_terms(context.plan, stage, context.codings, self.overlay).__getitem__
        if carried is None:
            assert self._outside is not None, stage.environment
            wiring = Wiring(
                edges={edge.id: edge for edge in context.plan.edges},
                components=context.codings.components,
                windowings=context.codings.context.windowing_strategies,
                writers=self._writers,
                open_side_input=self.sides.content,
                state_terms=terms,
                outside=self._outside,
                keep=True,
                script=(lambda: self._now) if context.plan.played else None,
            )
            return harness_outside(stage, wiring)
        return StageBundle(
            stage,
            context.codings.components,
            self._writers,
            SideInputState(stage, self.sides.content),
            terms,
            compiled=context.options.compiled,
            changing_side_inputs=self.sides.change(stage),
            book=self._book,
            async_steps=dict(context.options.async_steps),
            flight_bytes=context.options.flight_bytes,
            carriers=carried.steps,
        )

    def inputs(self) -> Iterator[Input]:
        """All of them, in the order in which they have their turns."""
        return self._slot.in_turn()

    # --- a round ------------------------------------------------------------------------------

    def run(
        self,
        header: RoundHeader,
        records: Iterator[bytes],
        send: Callable[[SparkPartition, bytes], None],
    ) -> None:
        """Run a round: records in, blocks, end messages and a report out.

        Raises:
            TruncatedInput: not all of the input was there.
            Exception: whatever user code raises. The round is undone then.
        """
        began, self._now = self._clock(), header.now
        self._version.settle(header.committed, self._commit, self._undo)
        complaints = self._version.follow(header.orders, self._slot)
        inside = self._inside() if header.orders.survey else []
        self._version.begin()
        attempt = random.SystemRandom().getrandbits(63)
        self._outbox.begin(attempt, send)
        order = header.orders.drain
        run = SlotRun(
            header,
            self._context.plan,
            self._slot,
            self.sides,
            self._outbox,
            Budget(header.elements, header.seconds, self._clock),
            None if order is None else Draining(self._context, order),
        )
        if header.orders.still:
            run.rest()
        else:
            run.run(records)
        report = self._account.report(run, self._version, inside)
        prepared_bytes = self._version.prepare(header.number, attempt, self._slot.shards)
        report = replace(
            report,
            complaints=complaints,
            prepared_bytes=prepared_bytes,
            busy=self._clock() - began,
            made=run.budget.made,
            spent=run.budget.was_spent,
            opened=self._opened,
        )
        told = encode_report(header.level, header.slot, report.encode())
        send(self._outbox.layout.reports, told)

    def _commit(self) -> None:
        self._opened = None
        for shard in self._slot.shards:
            shard.commit()
            for _, input_ in shard.inputs:
                input_.commit()
        self.sides.commit()
        self._account.commit()

    def _undo(self) -> None:
        self._close_shards()
        self._build([shard.counted for shard in self._slot.shards])

    def _inside(self) -> list[Inside]:
        """What is left inside of each stage, as it was committed."""
        count = self.overlay.count_timers
        return [
            sum(
                (input_.inside(count) for _, input_ in shard.inputs),
                Inside(parked=len(shard.carried or ())),
            )
            for shard in self._slot.shards
        ]

    # --- between rounds -----------------------------------------------------------------------

    def at_work(self) -> tuple[str, bytes | None]:
        """The step and key at work, see ``Harness.at_work``."""
        for shard in self._slot.shards:
            if shard.opened is not None:
                step, key = shard.opened.at_work()
                if step:
                    return step, key
        return "", None

    def stack(self) -> Sequence[tuple[str, int, str]]:
        """Where code in another process stands, see ``Harness.stack``."""
        opened = (shard.opened for shard in self._slot.shards)
        return next((found for each in opened if each and (found := each.stack())), ())

    def close(self) -> None:
        """Tear DoFns down, and delete all state."""
        with contextlib.ExitStack() as closing:
            closing.callback(self.overlay.close)
            closing.callback(self._close_shards)
            closing.callback(self._version.close)

    def _close_shards(self) -> None:
        error = self._slot.close(self.sides.close, self._mergers.close)
        if error is not None:
            raise error


def state_budget(plan: Plan, options: TaskOptions) -> int:
    """How many bytes of state a slot of one level keeps in memory.

    Levels share it that have much: restrictions of sources are few.
    """
    if not options.state_bytes:
        return options.memory_bytes // 3
    kinds = (EdgeKind.KEYED, EdgeKind.GROUP, EdgeKind.BROADCAST)
    keeping = {edge.consumer for edge in plan.edges if edge.kind in kinds}
    return options.state_bytes // max(1, len(keeping))


def state_directory(directory: Path, level: int) -> Path:
    """Where the slot of a level keeps its store, given the process's directory."""
    return directory / f"state-{level}"


def _nowhere(partition: SparkPartition, record: bytes) -> None:
    raise AssertionError
