"""One law: whenever a job dies, and however often, it ends with what it would have made unharmed.

What it has made is read from what slots report, so it is that which checkpoints cover: everything
counts once.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from random import SystemRandom
from typing import ClassVar

import apache_beam as beam
import pytest
from apache_beam.io.restriction_trackers import OffsetRestrictionTracker
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing import test_stream
from apache_beam.utils.timestamp import Duration
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from sparkdrain.drain.notification import DrainNotification
from sparkdrain.drain.signal import DrainSignal
from sparkdrain.io.stable import StableParDo
from sparkdrain.rounds.driver.durable import DurableJob
from sparkdrain.rounds.slots import open_slot
from tests.support.at_once import AtOnce
from tests.support.in_memory import run_in_memory
from tests.support.in_memory_rounds import InMemoryRounds, plan_of
from tests.support.law import law
from tests.support.random_pipelines import (
    EACH,
    GROUPED,
    WINDOWS,
    build,
    count,
    created,
    results,
    sound,
    streamed,
    streams,
)
from tests.support.restrictions import LeapingClock, Ranges


class Crash(Exception):
    """The driver and all hosts are gone."""


@pytest.fixture(autouse=True)
def _uploads_at_once(monkeypatch) -> None:
    monkeypatch.setattr(open_slot, "Uploader", AtOnce)


class Fuse:
    """Burns down with every step, and then crashes; ``None`` never does."""

    def __init__(self, steps: int | None) -> None:
        self.left = steps

    def burn(self, *_: object) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Crash


class Job:
    """A job with many lives. Whoever wants it drained says so again and again.

    Args:
        plan: of the job.
        folder: where checkpoints go.
        slots: per level.
        drain_after: after how many rounds of all lives together it is to be drained, if it is.
        clock: processing time; that of the script if not given.
    """

    def __init__(self, plan, folder, slots, drain_after=None, clock=None) -> None:
        self.plan = plan
        self.folder = folder
        self.slots = slots
        self.clock = clock
        self.rounds_to_drain = drain_after
        self.cut = None
        """How much of the script was played when sources were cut."""
        self.made_at_cut = None

    def live(self, steps):
        """One life of the job; what it has made at its end, or None if it died."""
        fuse = Fuse(steps)
        job = self

        class Burning(DurableJob):
            def publish(self, cut) -> None:
                fuse.burn()
                super().publish(cut)
                if job.cut is None and cut.drain is not None:
                    job.cut = cut.play
                    job.made_at_cut = results(cut.reports.values())
                fuse.burn()

        durable = DurableJob.at(self.folder, "job", "run", {}, self.slots, 2)
        burning = Burning(
            durable.storage, durable.paths, "run", {}, self.slots, 2, in_background=False
        )
        rounds = InMemoryRounds(
            self.plan, self.slots, fail=fuse.burn, durable=burning, clock=self.clock
        )
        rounds.loop.drain = DrainSignal()
        rounds.loop.timer_repeats = 10
        tell = rounds.loop.tell

        def count(schedule, reports) -> None:
            tell(schedule, reports)
            self.step(rounds)

        rounds.loop.tell = count
        self.step(rounds, of=0)
        try:
            rounds.run_to_end()
        except Crash:
            return None
        finally:
            rounds.close()
        return results(rounds.schedule.reports())

    def step(self, rounds, of=1) -> None:
        if self.rounds_to_drain is None:
            return
        self.rounds_to_drain -= of
        if self.rounds_to_drain <= 0:
            if not rounds.schedule.number:
                self.cut = 0  # there is nothing to make durable
            rounds.loop.drain.request(DrainNotification.create("run", 0))


@law(25, HealthCheck.function_scoped_fixture)
@given(
    streams(),
    st.sampled_from(sorted(WINDOWS)),
    st.lists(st.sampled_from(sorted(EACH)), max_size=1),
    st.lists(st.sampled_from(sorted(GROUPED)), min_size=1, max_size=2),
    st.integers(1, 2),
    st.lists(st.integers(0, 60), max_size=4),
)
def test_a_job_that_dies_and_goes_on_makes_everything_once(
    stream, windowing, each, grouped, slots, lives
) -> None:
    elements, script = stream
    each, grouped = sound(windowing, each, grouped)
    batch = beam.Pipeline(options=PipelineOptions([]))
    build(batch, created(elements), windowing, each, grouped)
    expected = results(run_in_memory(batch, 2))

    streaming = beam.Pipeline(options=PipelineOptions([]))
    build(streaming, streamed(script), windowing, each, grouped)
    plan = plan_of(streaming)
    assert made_in(lives, plan, slots)[0] == expected


@law(25, HealthCheck.function_scoped_fixture)
@given(
    streams(),
    st.sampled_from(sorted(WINDOWS)),
    st.lists(st.sampled_from(sorted(EACH)), max_size=1),
    st.lists(st.sampled_from(sorted(GROUPED)), min_size=1, max_size=2),
    st.integers(1, 2),
    st.integers(0, 12),
    st.lists(st.integers(0, 60), max_size=4),
)
def test_a_job_that_dies_while_it_is_drained_makes_all_of_what_it_had_read_once(
    stream, windowing, each, grouped, slots, drain_after, lives
) -> None:
    _, script = stream
    each, grouped = sound(windowing, each, grouped)
    streaming = beam.Pipeline(options=PipelineOptions([]))
    build(streaming, streamed(script), windowing, each, grouped)
    made, cut = made_in(lives, plan_of(streaming), slots, drain_after)

    batch = beam.Pipeline(options=PipelineOptions([]))
    build(batch, created(read(script, cut)), windowing, each, grouped)
    assert made == results(run_in_memory(batch, 2))


class Effects(beam.DoFn):
    """Has effects outside of the job: all that it sees, and in which life."""

    SEEN: ClassVar[list] = []

    def process(self, element):
        Effects.SEEN.append(element)
        yield element


@law(20, HealthCheck.function_scoped_fixture)
@given(
    streams(),
    st.sampled_from(["fixed", "global"]),
    st.lists(st.sampled_from(["sum per key", "state"]), max_size=1),
    st.integers(1, 2),
    st.none() | st.integers(0, 12),
    st.lists(st.integers(0, 60), max_size=4),
)
def test_what_requires_stable_input_never_sees_what_did_not_come_to_be(
    stream, windowing, grouped, slots, drain_after, lives
) -> None:
    _, script = stream

    def unstable(element):
        # Another one each time, as what a service outside answers.
        return element[0], (element[1], SystemRandom().random())

    def pipe(collection):
        made = collection | "Unstable" >> beam.Map(unstable)
        seen = made | StableParDo(Effects()) | "Plain" >> beam.MapTuple(lambda k, v: (k, v[0]))
        _ = made | "Kept" >> beam.Map(count)
        return seen

    streaming = beam.Pipeline(options=PipelineOptions([]))
    build(streaming, lambda p: pipe(streamed(script)(p)), windowing, [], grouped)
    Effects.SEEN.clear()
    made, _ = made_in(lives, plan_of(streaming), slots, drain_after)
    # What came to be is what checkpoints have: the metrics.
    rows = map(json.loads, made)
    kept = {(key, *value) for key, value, _ in rows if isinstance(value, list)}
    assert {(key, *value) for key, value in Effects.SEEN} == kept


def made_in(lives, plan, slots, drain_after=None):
    """What a job has made that dies after so many steps, again and again; and where it was cut."""
    folder = tempfile.mkdtemp(prefix="checkpoints-")
    job = Job(plan, folder, slots, drain_after)
    try:
        made = next(made for steps in [*lives, None] if (made := job.live(steps)) is not None)
    finally:
        shutil.rmtree(folder)
    return made, job.cut


class Endless(Ranges):
    """The numbers from the first on; nobody knows where they end."""

    def create_tracker(self, restriction):
        return Unbounded(restriction)


class Unbounded(OffsetRestrictionTracker):
    def is_bounded(self):
        return False


class Read(beam.DoFn):
    @beam.DoFn.unbounded_per_element()
    def process(self, element, tracker=beam.DoFn.RestrictionParam(Endless())):
        position = tracker.current_restriction().start
        for _ in range(3):
            if not tracker.try_claim(position):
                return
            yield position
            position += 1
        tracker.defer_remainder(Duration(1))


@law(10)
@given(st.integers(1, 9), st.lists(st.integers(0, 40), max_size=4))
def test_a_source_that_was_cut_is_never_read_on(drain_after, lives) -> None:
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    numbers = pipeline | beam.Create([(0, 10**9)]) | beam.ParDo(Read())
    shuffled = numbers | beam.Reshuffle() | beam.Map(lambda number: (number,))
    _ = shuffled | "Count" >> beam.Map(count)
    folder = tempfile.mkdtemp(prefix="checkpoints-")
    job = Job(plan_of(pipeline), folder, 2, drain_after, LeapingClock())
    try:
        made = next(made for steps in [*lives, None] if (made := job.live(steps)) is not None)
    finally:
        shutil.rmtree(folder)
    assert made == (job.made_at_cut or {})
    assert set(made.values()) <= {1}


def read(script, events):
    """The elements in so many events of a script; None: in all."""
    return [
        (*element.value, int(element.timestamp))
        for event in script._events[:events]
        if isinstance(event, test_stream.ElementEvent)
        for element in event.timestamped_values
    ]
