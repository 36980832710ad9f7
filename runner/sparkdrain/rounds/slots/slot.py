"""One slot of one level, over the life of a job: runs its part of every round."""

from __future__ import annotations

import contextlib
import random
import time
from dataclasses import astuple, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners import pipeline_context

from sparkdrain.checkpoints.rescale import groups_of_slot
from sparkdrain.drain.progress import Left
from sparkdrain.errors import HostMissing
from sparkdrain.graph.plan import EdgeId, EdgeKind, Plan, Stage
from sparkdrain.harness.bundle import StageBundle
from sparkdrain.harness.drain_hook import has_drain_hook
from sparkdrain.harness.step_book import StepBook
from sparkdrain.hosts.lookout import NOTES
from sparkdrain.panes.choose import groups_by_window
from sparkdrain.rounds.budget import Budget
from sparkdrain.rounds.context import Context
from sparkdrain.rounds.finalizers import Finalizers
from sparkdrain.rounds.inputs import Turn
from sparkdrain.rounds.inside import NOTHING
from sparkdrain.rounds.kept_finalizers import KeptFinalizers
from sparkdrain.rounds.keyed.state import state_maker
from sparkdrain.rounds.messages import RoundHeader, RoundReport
from sparkdrain.rounds.shard import RoundShard
from sparkdrain.rounds.sides.sides import Sides
from sparkdrain.rounds.slots.draining import Draining, edges_of
from sparkdrain.rounds.slots.input_for import has_untruncated, input_for, source_input_for
from sparkdrain.rounds.slots.late import take_dropped
from sparkdrain.rounds.stable import Coverage, StableInput
from sparkdrain.shuffle.blocks import Block, EndMessage, decode, encode_report
from sparkdrain.shuffle.complete import Completeness
from sparkdrain.shuffle.outbox import Outbox
from sparkdrain.side_inputs.state import SideInputState
from sparkdrain.stages.codings import Codings
from sparkdrain.stages.shard import Source
from sparkdrain.stages.teardown import tear_down
from sparkdrain.stages.writers import writer_for
from sparkdrain.watermarks.frontier import BEGIN, END, advanced
from timers_state import Overlay, RoundStore

# How long the last round of a job waits for one acknowledgement of a finalizer.
_SETTLE_SECONDS: Final = 10.0

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from apache_beam.portability.api import metrics_pb2

    from sparkdrain.rounds.inputs import Input
    from sparkdrain.rounds.inside import Inside
    from sparkdrain.rounds.kept_finalizers import FinalizerRow
    from sparkdrain.rounds.messages import Orders
    from sparkdrain.rounds.slots.uploads import SlotUploads
    from sparkdrain.shuffle.outbox import ShuffleLayout, SparkPartition
    from sparkdrain.stages.task import TaskOptions


class RoundSlot:
    """Runs the stages of ``level`` in one slot, round after round.

    All that it remembers from round to round is in ``overlay`` (undone and committed as a whole)
    and in its DoFns (thrown away if a round is undone).
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
        uploads: SlotUploads | None = None,
        restored: RoundReport | None = None,
    ) -> None:
        self._plan = plan
        self._level = level
        self._slot = slot
        self._book = StepBook(directory / NOTES)
        self._options = options
        self._clock = clock
        where = state_directory(directory, level)
        store = RoundStore(where) if restored is None else RoundStore.take_up(where)
        self.overlay = Overlay(store, state_budget(plan, options))
        # The attempts whose versions are here: the one that may count, and the one that does.
        self._prepared: int | None = None
        self._committed = None if restored is None else restored.attempt
        self._dirty = False
        self._uploads = uploads
        self.coverage = Coverage(restored=restored is not None)
        groups = groups_of_slot(slot, layout.slots)
        self._kept = KeptFinalizers(self.overlay, groups)
        self._finalizers = Finalizers(None if uploads is None else self._kept)
        self._takes_up = restored is not None
        components = beam_runner_api_pb2.Components()
        components.ParseFromString(plan.components)
        self._components = components
        pipeline = pipeline_context.PipelineContext(components)
        codings = Codings(pipeline, components)
        self._has_drain_hook = cache(partial(has_drain_hook, context=pipeline))
        self.context = Context(
            plan, level, slot, layout.slots, options, directory, codings, self.overlay
        )
        self._outbox = Outbox(layout, level, slot, 0, _nowhere)
        self._edges = {edge.id: edge for edge in plan.edges_into(level)}
        self._draining: Draining | None = None
        self._dropped = 0
        self._dropped_before = 0 if restored is None else restored.dropped
        # Up to where side inputs were dropped, at most; what was dropped once is gone for good.
        self._passed = {} if restored is None else dict(restored.passed)
        self._passed_before = self._passed
        # Metrics of the lives before this one.
        self._counted_before = [] if restored is None else list(restored.metrics)
        self._build([[] for _ in plan.levels[level]])

    def _build(self, counted: list[list[metrics_pb2.MonitoringInfo]]) -> None:
        """Make everything that remembers nothing (or nothing that counts)."""
        self._writers = {
            edge.id: writer_for(
                edge,
                self.context.codings,
                self._outbox,
                self._options.block_bytes,
                groups_by_window,
            )
            for edge in self._plan.edges_out_of(self._level)
        }
        self.sides = Sides(self.context, self._edges.values())
        self._inputs: dict[EdgeId, Input] = dict(self.sides.streams)
        self._shards = [
            self._make_shard(stage, metrics)
            for stage, metrics in zip(self._plan.levels[self._level], counted, strict=True)
        ]

    def _make_shard(self, stage: Stage, counted: list[metrics_pb2.MonitoringInfo]) -> RoundShard:
        shard = RoundShard(
            stage, self._make_bundle, counted, self._finalizers, self._has_drain_hook
        )
        for transform, edge in stage.sources:
            source = Source(shard, transform)
            if edge is None:
                shard.inputs.append((None, source_input_for(self, stage, transform, source)))
            else:
                self._inputs[edge] = input_for(self, self._edges[edge], stage, source)
                shard.inputs.append((edge, self._inputs[edge]))
                shard.steps[edge] = self._edges[edge].step
        return shard

    def _make_bundle(self, stage: Stage) -> StageBundle:
        edges = {(side.transform, side.tag): side.edge for side in stage.side_inputs}
        return StageBundle(
            stage,
            self._components,
            self._writers,
            SideInputState(edges, self.sides.content),
            state_maker(self._plan, stage, self.context.codings, self.overlay),
            compiled=self._options.compiled,
            changing_side_inputs=self.sides.change(stage),
            book=self._book,
        )

    def inputs(self) -> Iterator[Input]:
        """All of them, in the order in which they have their turns."""
        return (input_ for shard in self._shards for _, input_ in shard.inputs)

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
        began = self._clock()
        self._settle(header.committed)
        complaints = self._follow(header.orders)
        inside = self._inside() if header.orders.survey else []
        self._dirty = True
        attempt = random.SystemRandom().getrandbits(63)
        self._outbox.begin(attempt, send)
        self._draining = self._drain_of(header)
        self.sides.begin(header.inputs)
        complete = Completeness(header.expected)
        for record in records:
            self._take(record, complete)
        inputs = complete.verify()
        budget = Budget(header.elements, header.seconds, self._clock)
        outputs = self._process(header, complete, budget)
        report = replace(
            self._report(header, inputs, outputs), left=self._left(inside), complaints=complaints
        )
        self._finalizers.registered(
            header.number, [each for shard in self._shards for each in shard.take_finalizers()]
        )
        prepared_bytes = self.overlay.prepare()
        report = replace(
            report,
            prepared_bytes=prepared_bytes,
            busy=self._clock() - began,
            made=budget.made,
            spent=budget.was_spent,
        )
        self._prepared = attempt
        layout = self._outbox.layout
        send(layout.reports, encode_report(self._level, self._slot, report.encode()))

    def _process(
        self, header: RoundHeader, complete: Completeness, budget: Budget
    ) -> tuple[int, ...]:
        """All inputs are there: give every stage its turn, and send what they make, to the end.

        Returns:
            The stages' output frontiers.
        """
        draining = self._draining
        if draining is not None:
            draining.heard(complete.drains())
        frontiers = complete.frontiers()
        self.sides.run(
            {e: self._turn(header, e, frontiers, budget) for e in self.sides.streams}, self._shards
        )
        turns = [self._turns(header, shard, frontiers, budget) for shard in self._shards]
        for shard, own in zip(self._shards, turns, strict=True):
            if draining is None:
                shard.run(own)
            else:
                draining.run(shard, own, self._outbox, partial(self._flush, shard))
        self.sides.expire()
        for writer in self._writers.values():
            writer.flush()
        outputs = self._outputs(header, turns)
        message = None if draining is None else draining.message(self._slot)
        self._outbox.end(self._told(outputs), message)
        return outputs

    def _settle(self, committed: int | None) -> None:
        """Commit or undo what was prepared last, as the driver has decided.

        Raises:
            HostMissing: the driver counts on a version that is not here.
        """
        if committed is not None and committed == self._prepared:
            self._commit()
        elif committed != self._committed:
            message = (
                f"the state of slot {self._slot} of level {self._level} is not the one that the "
                "last round ended with: the process that held it is gone"
            )
            raise HostMissing(message)
        elif self._dirty:
            self.overlay.rollback()
            self._finalizers.undone()
            self._close_shards()
            self._build([shard.counted for shard in self._shards])
        self._dropped = 0
        self._prepared = None
        self._dirty = False

    def _commit(self) -> None:
        self.overlay.commit()
        self._finalizers.committed()
        for shard in self._shards:
            shard.commit()
            for _, input_ in shard.inputs:
                input_.commit()
        self.sides.commit()
        self._dropped_before += self._dropped
        self._passed_before = self._passed
        self._committed = self._prepared

    def _follow(self, orders: Orders) -> tuple[str, ...]:
        """Begin the checkpoint that the driver orders, and note which one it has published.

        Runs between rounds, when the committed version is all that there is.

        Returns:
            In the last round: why finalizers have failed; a text each.
        """
        if self._takes_up:
            self._takes_up = False
            self._finalizers.restored(self._left_over())
        self._finalizers.published(orders.published)
        self.coverage.published(orders.published)
        if self._uploads is not None and orders.checkpoint is not None:
            self._finalizers.covered(orders.checkpoint)
            ends = {input_.state_id: input_.end for input_ in self._stable_inputs()}
            self.coverage.begun(orders.checkpoint, ends)
            self._uploads.begin(orders.checkpoint, self._snapshot)
        return tuple(self._finalizers.settle(_SETTLE_SECONDS)) if orders.last else ()

    def _left_over(self) -> list[tuple[FinalizerRow, str, Callable[[], object]]]:
        """Finalizers that a life before this one has not run, or not to their end."""
        owners = {str(id_): shard for shard in self._shards for id_, _ in shard.stage.transforms}

        def remake(transform: str, data: str) -> Callable[[], object]:
            return owners[transform].acknowledgement(transform, data)

        return list(self._kept.restored(remake))

    def _stable_inputs(self) -> list[StableInput]:
        return [input_ for input_ in self.inputs() if isinstance(input_, StableInput)]

    def _snapshot(self, directory: Path) -> None:
        # Inputs may have looked at their state since the last round, which opens it.
        self.overlay.prepare()
        self.overlay.commit()
        self.overlay.snapshot(directory)

    def _drain_of(self, header: RoundHeader) -> Draining | None:
        order = header.orders.drain
        if order is None:
            return None
        return Draining(
            header.slot,
            order,
            self._edges.values(),
            self._outbox.layout.slots,
            self.overlay,
            self._options.memory_bytes,
            lambda: self.context.directory,
        )

    def _flush(self, shard: RoundShard) -> None:
        for _, edge in shard.stage.sinks:
            self._writers[edge].flush()

    def _take(self, record: bytes, complete: Completeness) -> None:
        message = decode(record)
        if isinstance(message, EndMessage):
            complete.saw_end(message)
        elif isinstance(message, Block):
            payload = message.payload
            complete.saw_block(
                message.level, message.producer, message.edge, message.sequence, len(payload)
            )
            if self._draining is None or not self._draining.keeps(message):
                self._inputs[EdgeId(message.edge)].take(payload)

    def _turns(
        self, header: RoundHeader, shard: RoundShard, frontiers: dict[int, int], budget: Budget
    ) -> list[Turn]:
        turns = []
        for (edge, _), (transform, _) in zip(shard.inputs, shard.stage.sources, strict=True):
            if edge is not None:
                turns.append(self._turn(header, edge, frontiers, budget))
                continue
            feed = header.feeds.get(transform)
            if feed is not None:
                before, after = feed.before, feed.frontier
            else:
                before, after = (BEGIN if header.begin else END), END
            turns.append(Turn(before, after, header.now, budget, feed, header.orders.held))
        return turns

    def _turn(
        self, header: RoundHeader, edge: int, frontiers: dict[int, int], budget: Budget
    ) -> Turn:
        before = header.inputs[edge]
        after = advanced(before, frontiers.get(edge, before), f"edge {edge}")
        return Turn(before, after, header.now, budget, held=header.orders.held)

    def _outputs(self, header: RoundHeader, turns: list[list[Turn]]) -> tuple[int, ...]:
        before = header.outputs or (BEGIN,) * len(self._shards)
        outputs = tuple(
            shard.frontier(time, own)
            for shard, time, own in zip(self._shards, before, turns, strict=True)
        )
        draining = self._draining
        return outputs if draining is None else draining.outputs(self._shards, before, outputs)

    def _told(self, outputs: tuple[int, ...]) -> dict[int, list[tuple[int, int]]]:
        told: dict[int, list[tuple[int, int]]] = {}
        consumers = {edge.id: edge.consumer for edge in self._plan.edges_out_of(self._level)}
        for shard, frontier in zip(self._shards, outputs, strict=True):
            for _, id_ in shard.stage.sinks:
                told.setdefault(consumers[id_], []).append((id_, frontier))
        return told

    def _report(
        self,
        header: RoundHeader,
        inputs: dict[tuple[int, int], int],
        outputs: tuple[int, ...],
    ) -> RoundReport:
        wakes = [wake for shard in self._shards if (wake := shard.wake()) is not None]
        wakes += self.sides.wakes()
        outbox = self._outbox
        self._dropped = take_dropped(self._shards, self.sides, self._edges)
        self._passed = {
            edge: max(time, self._passed_before.get(edge, BEGIN))
            for edge, time in self.sides.passed().items()
        }
        return RoundReport(
            self._level,
            self._slot,
            header.number,
            outbox.attempt,
            inputs,
            outputs,
            frozenset(outbox.edges),
            min(wakes, default=None),
            self._metrics(),
            outbox.sent_bytes,
            self._dropped_before + self._dropped,
            tuple(hold for shard in self._shards for hold in shard.holds() if hold[2] < END),
            uploaded=None if self._uploads is None else self._uploads.ended(),
            unsettled=self._finalizers.unsettled,
            waits=any(input_.waits for input_ in self._stable_inputs()),
            drained=() if self._draining is None else self._draining.drained,
            refused=() if self._draining is None else self._refused(),
            missing=() if self._draining is None else self._draining.missing(self._shards),
            strangers=0 if self._draining is None else self._draining.states.strangers,
            passed=self._passed,
            untruncated=self._draining is not None and has_untruncated(self),
        )

    def _inside(self) -> list[Inside]:
        """What is left inside of each stage, as it was committed."""
        count = self.overlay.count_timers
        return [
            sum((input_.inside(count) for _, input_ in shard.inputs), NOTHING)
            for shard in self._shards
        ]

    def _left(self, inside: list[Inside]) -> tuple[Left, ...]:
        slots, draining = self._outbox.layout.slots, self._draining
        left = []
        for number, (shard, own) in enumerate(zip(self._shards, inside, strict=bool(inside))):
            edges = edges_of(shard.stage)
            inputs, drained = slots * len(edges), 0
            if draining is not None:
                inputs, drained = draining.states.count(edges)
                own = NOTHING if draining.drained[number] else own  # noqa: PLW2901
            left.append(Left(shard.stage.name, inputs, drained, *astuple(own)))
        return tuple(left)

    def _refused(self) -> tuple[tuple[str, str, int], ...]:
        return tuple(refused for shard in self._shards for refused in shard.take_refused())

    def _metrics(self) -> list[bytes]:
        own = (info.SerializeToString() for shard in self._shards for info in shard.infos())
        return [*self._counted_before, *own]

    def at_work(self) -> tuple[str, bytes | None]:
        """See ``StageBundle.at_work``."""
        for shard in self._shards:
            if shard.opened is not None:
                step, key = shard.opened.at_work()
                if step:
                    return step, key
        return "", None

    def close(self) -> None:
        """Tear DoFns down, and delete all state."""
        with contextlib.ExitStack() as closing:
            closing.callback(self.overlay.close)
            closing.callback(self._close_shards)
            if self._uploads is not None:
                closing.callback(self._uploads.close)

    def _close_shards(self) -> None:
        error = tear_down([self.sides.close, *(shard.close for shard in self._shards)])
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
