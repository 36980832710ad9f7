"""Law of the end: whoever is told how far a job has come knows all of it when the job is over.

Whenever the job dies, also between its last checkpoint and the moment in which that is told.
"""

from __future__ import annotations

import functools
import json
import shutil
import tempfile
from typing import ClassVar

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.utils.timestamp import Duration
from hypothesis import example, given
from hypothesis import strategies as st

from sparkdrain.drain.signal import DrainSignal
from sparkdrain.errors import NotAcknowledged
from sparkdrain.rounds.driver.durable import DurableJob
from sparkdrain.rounds.slots import service
from tests.support.at_once import AtOnce
from tests.support.drained import request
from tests.support.endless import Endless
from tests.support.in_memory_rounds import InMemoryRounds, plan_of
from tests.support.law import law
from tests.support.mortal_job import LIVES, Job
from tests.support.random_pipelines import count, results
from tests.support.restrictions import LeapingClock


@pytest.fixture(autouse=True)
def _uploads_at_once(monkeypatch) -> None:
    monkeypatch.setattr(service, "Uploader", AtOnce)


class Outside:
    """What outlives all processes, and what is on its way there from the present ones."""

    offsets: ClassVar[dict] = {}
    seen: ClassVar[set] = set()
    read: ClassVar[set] = set()
    on_the_way: ClassVar[dict] = {}
    is_away: ClassVar[bool] = False

    @classmethod
    def forget(cls) -> None:
        for known in (cls.offsets, cls.seen, cls.read, cls.on_the_way):
            known.clear()


class Told:
    """Takes its time; what is on its way is lost with the process."""

    def __init__(self, ident, offset) -> None:
        self.ident, self.offset = ident, offset
        self.data = json.dumps([ident, offset])

    def __call__(self) -> None:
        Outside.on_the_way[self.ident] = self.offset

    def settle(self, seconds) -> bool:
        if Outside.is_away:
            message = "nobody there"
            raise ConnectionError(message)
        if seconds and self.ident in Outside.on_the_way:
            Outside.offsets[self.ident] = Outside.on_the_way.pop(self.ident)
        return Outside.offsets.get(self.ident, -1) >= self.offset


def see(number) -> None:
    Outside.seen.add(number)


class Read(beam.DoFn):
    """Three numbers a bundle; tells where it is, and of each number by itself."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element,
        finalizer=beam.DoFn.BundleFinalizerParam,
        tracker=beam.DoFn.RestrictionParam(Endless()),
    ):
        first = number = tracker.current_restriction().start
        while number < first + 3 and tracker.try_claim(number):
            Outside.read.add(number)
            yield number
            finalizer.register(functools.partial(see, number))
            number += 1
        if number > first:
            finalizer.register(Told(str(element[0]), number))
        if number == first + 3:
            tracker.defer_remainder(Duration(1))

    def acknowledgement(self, data):
        return Told(*json.loads(data))


class ReadOneByOne(Read):
    """Tells where it is with each number, so several times in a round."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element,
        finalizer=beam.DoFn.BundleFinalizerParam,
        tracker=beam.DoFn.RestrictionParam(Endless()),
    ):
        for number in super().process(element, finalizer, tracker):
            yield number
            finalizer.register(Told(str(element[0]), number + 1))


@functools.cache
def plan(reader=Read):
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    read = pipeline | beam.Create([(0, 10**9), (1000, 10**9)]) | beam.ParDo(reader())
    _ = read | beam.Map(lambda number: (number,)) | "Count" >> beam.Map(count)
    return plan_of(pipeline)


def check(made) -> None:
    """Those outside know exactly what has been made."""
    numbers = {json.loads(row)[0] for row in made}
    assert set(made.values()) <= {1}
    assert Outside.seen == numbers
    ends = {"0": [n for n in numbers if n < 1000], "1000": [n for n in numbers if n >= 1000]}
    assert Outside.offsets == {ident: max(own) + 1 for ident, own in ends.items() if own}


@law(8)
@given(st.integers(1, 9), LIVES)
@example(3, ([2], []))
def test_when_a_drained_job_is_over_the_outside_knows_all_of_it(drain_after, lives) -> None:
    folder = tempfile.mkdtemp(prefix="checkpoints-")
    job = Job(plan(), folder, drain_after, LeapingClock())
    Outside.forget()
    try:
        slots, deaths = lives
        for number, steps in enumerate([*deaths, None]):
            Outside.on_the_way.clear()  # with the process
            made = job.live(slots[number % len(slots)], steps)
            if made is not None:
                break
    finally:
        shutil.rmtree(folder)
    check(made)


def test_who_dies_between_its_last_checkpoint_and_telling_the_outside_tells_it_later() -> None:
    """At every step of the end, one after the other.

    What the outside was told of before is part of a checkpoint: nothing of it is read again.
    """
    died = 0
    for steps in range(60):
        folder = tempfile.mkdtemp(prefix="checkpoints-")
        job = Job(plan(), folder, 2, LeapingClock())
        Outside.forget()
        try:
            made = job.live(1, steps)
            if made is None:
                died += 1
                told = set(Outside.seen)
                Outside.on_the_way.clear()
                Outside.read.clear()
                made = job.live(1, None)
                assert not Outside.read & told, "no checkpoint had what the outside was told of"
        finally:
            shutil.rmtree(folder)
        check(made)
        if died <= steps:
            break
    assert 10 < died < 60


class Slow(DurableJob):
    """Begins to publish a checkpoint when it is asked for it the third time."""

    numbers: frozenset[int] = frozenset()
    """What has been counted in rounds that a published checkpoint covers."""

    def publish(self, cut) -> None:
        self._cut, self._asked = cut, 0

    def is_published(self) -> bool:
        self._asked += 1
        if self._asked == 3:
            super().publish(self._cut)
        is_published = self._asked >= 3 and super().is_published()
        if is_published:
            self.numbers = frozenset(
                json.loads(row)[0] for row in results(self._cut.reports.values())
            )
        return is_published


def test_the_outside_is_told_of_nothing_that_only_a_later_checkpoint_will_have(tmp_path) -> None:
    known = DurableJob.at(str(tmp_path), "job", "run", {}, 1, 2)
    durable = Slow(known.storage, known.paths, "run", {}, 1, 2)
    Outside.forget()
    rounds = InMemoryRounds(plan(), 1, clock=LeapingClock(), durable=durable)
    rounds.loop.drain.signal = DrainSignal()
    tell, told = rounds.loop.tell, set()

    def look(schedule, reports) -> None:
        tell(schedule, reports)
        assert Outside.seen <= durable.numbers
        assert {n for n in durable.numbers if n < 1000} >= set(range(Outside.offsets.get("0", 0)))
        told.add(len(Outside.seen))
        if durable.number == 8:
            request(rounds)

    rounds.loop.tell = look
    try:
        rounds.run_to_end()
        check(results(rounds.schedule.reports()))
    finally:
        rounds.close()
    assert len(told) > 3, "the test means to tell the outside now and then"


@pytest.mark.parametrize("is_durable", [True, False])
@pytest.mark.parametrize("reader", [Read, ReadOneByOne])
def test_a_drained_job_fails_if_the_outside_cannot_be_told(reader, is_durable, monkeypatch) -> None:
    folder = tempfile.mkdtemp(prefix="checkpoints-")
    Outside.forget()
    monkeypatch.setattr(Outside, "is_away", True)
    try:
        if is_durable:
            job = Job(plan(reader), folder, 2, LeapingClock())
            with pytest.raises(NotAcknowledged, match=r" 0: ConnectionError\('nobody there'\)"):
                job.live(1, None)
            monkeypatch.setattr(Outside, "is_away", False)
            check(job.live(1, None))
            return
        rounds = InMemoryRounds(plan(reader), 1, clock=LeapingClock())
        tell = rounds.loop.tell

        def look(schedule, reports) -> None:
            tell(schedule, reports)
            if schedule.number == 2:
                request(rounds)

        rounds.loop.tell = look
        try:
            with pytest.raises(NotAcknowledged, match="nobody there"):
                rounds.run_to_end()
        finally:
            rounds.close()
    finally:
        shutil.rmtree(folder)
