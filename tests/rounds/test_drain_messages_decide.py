"""Drain messages decide: the end of time does not, nor what the driver knows of producers.

Messages are swallowed, forged and sent again on their way from slot to slot, where the two differ.
"""

from __future__ import annotations

import contextlib
import json
import logging
from dataclasses import replace

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows, GlobalWindow, GlobalWindows
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkdrain import SparkDrainRunner
from sparkdrain.drain.states import DataAfterDrain, UnexpectedProducer
from sparkdrain.errors import TruncatedInput
from sparkdrain.graph.plan import EdgeKind
from sparkdrain.rounds.driver.durable import DurableJob
from sparkdrain.rounds.slots import service
from sparkdrain.shuffle.blocks import EndMessage, decode, encode_end
from sparkdrain.watermarks.frontier import END
from tests.support.at_once import AtOnce
from tests.support.drained import drain_after
from tests.support.endless import numbers
from tests.support.in_memory_rounds import InMemoryRounds, plan_of
from tests.support.random_pipelines import Named, TotalAtEndOfWindow, count, results
from tests.support.recorded import Steady
from tests.support.restrictions import Count, LeapingClock
from tests.support.rounds_engine import RoundsEngine
from tests.support.waiting import wait_until

SLOTS = 2
DRAIN_AFTER = 2


class Waits(Exception):
    """Nothing is due, and nothing ever will be: the job waits for what does not come."""


class Clock(LeapingClock):
    def wait_until(self, then, cancel) -> None:
        if then is None:
            raise Waits
        super().wait_until(then, cancel)


class Post:
    """Carries records to slots; ``tamper`` is given each end message with a drain message."""

    def __init__(self, tamper) -> None:
        self._tamper = tamper

    def __call__(self, header, records):
        return [self._carry(header, record) for record in records]

    def _carry(self, header, record):
        message = decode(record)
        if not isinstance(message, EndMessage) or message.drain is None:
            return record
        drain = self._tamper(header, message.drain)
        return encode_end(replace(message, drain=drain))


def same(_, drain):
    return drain


def swallowing(edge, producer):
    """Loses all that one producer tells on one edge."""

    def tamper(_, drain):
        kept = tuple(e for e in drain.edges if e != edge or drain.producer != producer)
        return replace(drain, edges=kept)

    return tamper


def rounds_of(plan, tamper, **settings):
    rounds = InMemoryRounds(
        plan, SLOTS, clock=Clock(), deliver=Post(tamper), elements=6, **settings
    )
    drain_after(DRAIN_AFTER, rounds)
    return rounds


@contextlib.contextmanager
def closing(rounds):
    try:
        yield rounds
    finally:
        rounds.close()


def all_kinds():
    """An edge of each kind, from a source without end and from one that ends by itself."""
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    few = pipeline | "few" >> beam.Create([1, 2, 3])
    side = beam.pvalue.AsList(few | "spread few" >> beam.Reshuffle())
    read = pipeline | Named(numbers("a", "b")) | beam.Reshuffle()
    rest = read | beam.MapTuple(lambda _, n: (f"{n % 3}", n)).with_output_types(tuple[str, int])
    windows = rest | beam.WindowInto(FixedWindows(4))
    sums = windows | beam.CombinePerKey(sum)
    timed = windows | beam.ParDo(TotalAtEndOfWindow())
    both = ((sums, timed) | beam.Flatten()) | "everywhere" >> beam.WindowInto(GlobalWindows())
    _ = both | beam.Map(lambda pair, more: (pair[0], len(more)), more=side) | beam.Map(count)
    return plan_of(pipeline)


ALL_KINDS = all_kinds()


def test_the_pipeline_here_has_edges_of_all_kinds():
    kinds = {edge.kind for edge in ALL_KINDS.edges}
    assert {EdgeKind.SPREAD, EdgeKind.GROUP, EdgeKind.KEYED, EdgeKind.BROADCAST} <= kinds


def test_if_all_messages_come_the_job_is_drained():
    with closing(rounds_of(ALL_KINDS, same)) as rounds:
        rounds.run_to_end()
        assert rounds.schedule.is_drained()
        assert rounds.schedule.missing() == []


@pytest.mark.parametrize("edge", [edge.id for edge in ALL_KINDS.edges])
def test_a_job_of_which_one_message_on_one_edge_is_lost_is_never_drained(edge, caplog):
    with closing(rounds_of(ALL_KINDS, swallowing(edge, edge % SLOTS))) as rounds:
        with caplog.at_level(logging.WARNING), pytest.raises(Waits):
            rounds.run_to_end()
        assert not rounds.schedule.is_drained()
        assert edge in {missing.edge for missing in rounds.schedule.missing()}
    assert f"producers of edge {edge}" in caplog.text
    assert "the job stays DRAINING" in caplog.text


class Hears(beam.DoFn):
    """Is told when it is drained, and makes an element then."""

    def process(self, element):
        yield element

    def on_drain(self):
        yield WindowedValue(("told", 1), Timestamp(1), (GlobalWindow(),))


def test_time_does_not_end_behind_a_stage_that_is_still_to_be_told_that_it_is_drained():
    """Else what it makes then would be late."""
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    read = pipeline | Named(numbers("a", "b")) | beam.Reshuffle() | beam.ParDo(Hears())
    sums = read | beam.WindowInto(FixedWindows(4)) | beam.CombinePerKey(sum)
    _ = sums | beam.Map(count)
    plan = plan_of(pipeline)
    edge = max(edge.id for edge in plan.edges if edge.kind is EdgeKind.SPREAD)
    with closing(rounds_of(plan, swallowing(edge, 0))) as rounds:
        with pytest.raises(Waits):
            rounds.run_to_end()
        waiting = {missing.stage for missing in rounds.schedule.missing() if missing.edge == edge}
        level = next(
            level
            for level, stages in enumerate(plan.levels)
            if waiting & {stage.name for stage in stages}
        )
        told = [report for report in rounds.schedule.reports() if report.level == level]
    assert len(told) == SLOTS
    assert max(max(report.outputs) for report in told) < END


def bounded():
    """A source that ends by itself, behind two shuffles."""
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    read = pipeline | beam.Create([("a", 1), ("b", 2), ("a", 3)]) | beam.CombinePerKey(sum)
    again = read | beam.MapTuple(lambda key, n: ("all", n)) | "again" >> beam.CombinePerKey(sum)
    _ = again | beam.Map(count)
    return plan_of(pipeline)


def test_an_input_that_ends_by_itself_while_the_job_drains_does_not_drain_its_consumers():
    plan = bounded()
    edge = next(edge.id for edge in plan.edges if edge.kind is EdgeKind.GROUP)
    with closing(rounds_of(plan, swallowing(edge, 0))) as rounds:
        drain_after(0, rounds)
        with pytest.raises(Waits):
            rounds.run_to_end()
        # All input has ended, everything came out, and time is at its end everywhere.
        assert rounds.schedule.frontier() == END
        assert rounds.schedule.wake() is None
        assert not rounds.schedule.is_drained()


def test_messages_of_another_run_do_not_count_and_are_told_of(caplog):
    edge = next(edge.id for edge in ALL_KINDS.edges if edge.kind is EdgeKind.GROUP)

    def foreign(_, drain):
        if drain.producer == 0 and edge in drain.edges:
            return replace(drain, run_id="job/0")
        return drain

    with closing(rounds_of(ALL_KINDS, foreign)) as rounds:
        with caplog.at_level(logging.WARNING), pytest.raises(Waits):
            rounds.run_to_end()
        assert not rounds.schedule.is_drained()
        dropped = {
            info.labels["NAME"]: rounds.schedule.strangers
            for info in rounds.schedule.metrics()
            if info.labels.get("NAMESPACE") == "sparkdrain.drain"
        }
        assert dropped.keys() == {"foreign_messages"}
        assert dropped["foreign_messages"] >= SLOTS
    assert "drain messages of another run than 'job/1'" in caplog.text


def test_a_job_without_messages_of_other_runs_has_no_counter_of_them():
    with closing(rounds_of(ALL_KINDS, same)) as rounds:
        rounds.run_to_end()
        names = {info.labels.get("NAME") for info in rounds.schedule.metrics()}
        assert "foreign_messages" not in names


def test_what_was_heard_in_a_round_that_was_undone_was_never_heard():
    """The producer of the message does not send it when the round is replayed."""
    edge = next(edge for edge in ALL_KINDS.edges if edge.kind is EdgeKind.GROUP)
    undone, heard = [], []

    def once(header, drain):
        if header.level != edge.consumer or edge.id not in drain.edges or drain.producer:
            return drain
        if not undone:
            heard.append(header.number)
            return drain
        return replace(drain, edges=tuple(e for e in drain.edges if e != edge.id))

    def fail(header) -> None:
        if heard and header.level > edge.consumer and not undone:
            undone.append(header.number)
            message = "as the test wants it"
            raise TruncatedInput(message)

    with closing(rounds_of(ALL_KINDS, once, fail=fail)) as rounds:
        with pytest.raises(Waits):
            rounds.run_to_end()
        assert undone[0] in heard
        assert edge.id in {missing.edge for missing in rounds.schedule.missing()}


def test_a_message_that_was_committed_is_remembered_for_all_rounds_to_come():
    """Each message comes once; what producers tell again in later rounds is lost."""
    told = set()

    def once(header, drain):
        new = {(header.level, header.slot, drain.producer, edge) for edge in drain.edges} - told
        told.update(new)
        return replace(drain, edges=tuple(edge for *_, edge in sorted(new)))

    with closing(rounds_of(ALL_KINDS, once)) as rounds:
        rounds.run_to_end()
        assert rounds.schedule.is_drained()


def long_bounded(restrictions=1):
    """A source that a drain reads to its end, which takes many rounds."""
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    ranges = [(100 * n, 100 * n + 60) for n in range(restrictions)]
    read = pipeline | beam.Create(ranges, reshuffle=False) | beam.ParDo(Count())
    rest = read | beam.Map(lambda n: (n % 3, n)).with_output_types(tuple[int, int])
    _ = rest | beam.CombinePerKey(sum) | beam.Map(count)
    return plan_of(pipeline)


def test_elements_behind_a_drain_message_fail_the_job():
    """A producer that says too early that it is drained, and goes on to send."""
    plan = long_bounded()
    edge = next(edge for edge in plan.edges if edge.kind is EdgeKind.GROUP)

    def early(header, drain):
        if header.level != edge.consumer or edge.id in drain.edges:
            return drain
        return replace(drain, edges=(*drain.edges, edge.id))

    with (
        closing(rounds_of(plan, early)) as rounds,
        pytest.raises(DataAfterDrain, match=f"on edge {edge.id} after its drain message"),
    ):
        rounds.run_to_end()


def test_a_message_about_an_edge_that_the_producer_does_not_send_on_fails_the_job():
    with (
        closing(rounds_of(ALL_KINDS, lambda _, drain: replace(drain, edges=(99,)))) as rounds,
        pytest.raises(UnexpectedProducer, match="edge 99"),
    ):
        rounds.run_to_end()


# --- other slots ----------------------------------------------------------------------------------


class Crash(BaseException):
    """The driver and all hosts are gone."""


def live(folder, plan, slots, *, fail=lambda header: None, look=lambda rounds: None):
    """One life of a job whose state is kept in ``folder``, and that is drained all the time."""
    durable = DurableJob.at(str(folder), "job", "run", {}, slots, 2)
    rounds = InMemoryRounds(
        plan, slots, clock=Clock(), elements=6, durable=durable, fail=fail, seconds=1
    )
    rounds.loop.pace = Steady(rounds.loop.pace, 6)
    drain_after(0, rounds)
    tell = rounds.loop.tell

    def told(schedule, reports) -> None:
        tell(schedule, reports)
        look(rounds)

    rounds.loop.tell = told
    try:
        rounds.run_to_end()
        return results(rounds.schedule.reports()), rounds.schedule.is_drained()
    finally:
        rounds.close()
        durable.settle()


@pytest.mark.parametrize(("before", "after"), [(3, 2), (3, 1), (2, 3), (2, 2)])
def test_other_slots_hear_from_the_producers_that_there_are_now(
    before, after, tmp_path, monkeypatch
):
    """Some producers were drained when the job died. Their successors have more to send."""
    monkeypatch.setattr(service, "Uploader", AtOnce)
    plan = long_bounded()
    edge = next(edge for edge in plan.edges if edge.kind is EdgeKind.GROUP)
    published = []

    def die_when_some_are_drained(rounds) -> None:
        number = rounds.loop.checkpoints.published
        heard = {
            missing.producers
            for report in rounds.schedule.reports()
            for missing in report.missing
            if missing.edge == edge.id
        }
        published.append((number, heard))
        # A checkpoint that covers a round in which some had told so, and not all.
        if any(0 < count < before for _, known in published[:-3] for count in known) and number > 1:
            raise Crash

    with pytest.raises(Crash):
        live(tmp_path, plan, before, look=die_when_some_are_drained)
    made, is_drained = live(tmp_path, plan, after)
    assert is_drained
    sums = {key: total for key, total, *_ in map(json.loads, made)}
    assert sums == {rest: sum(n for n in range(60) if n % 3 == rest) for rest in range(3)}


def test_people_see_that_the_job_drains_on_what_it_waits_for_and_can_cancel_it(in_process, caplog):
    lost = Post(lambda _, drain: replace(drain, edges=() if drain.producer else drain.edges))
    in_process(RoundsEngine(deliver=lost, elements=20))
    options = PipelineOptions(["--streaming", "--allow_unsafe_triggers", "--progress=off"])
    pipeline = beam.Pipeline(SparkDrainRunner(), options=options)
    _ = pipeline | Named(numbers("a")) | "sums" >> beam.CombinePerKey(sum)
    result = pipeline.run()
    result.drain()
    wait_until(lambda: "the job stays DRAINING" in caplog.text)
    assert "waits for 1 producers of edge" in caplog.text
    assert result.state == "DRAINING"
    result.cancel()
    wait_until(lambda: result.state == "CANCELLED")
