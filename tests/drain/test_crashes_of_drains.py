"""A job that dies at any step of its drain, the first time or later, goes on to drain when resumed.

What comes out of all of its lives together is what its pipeline makes of what it had read at the
cut, once; nothing is read after that; and a new run takes up nothing of it.
"""

from __future__ import annotations

import functools
import json
from collections import Counter

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows, GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkdrain.checkpoints.beam_storage import storage_at
from sparkdrain.checkpoints.catalogue import contents, find
from sparkdrain.drain import caused_by_drain
from sparkdrain.drain.notification import DrainNotification
from sparkdrain.drain.phases import DrainPhase
from sparkdrain.drain.signal import DrainSignal
from sparkdrain.errors import CheckpointRefused
from sparkdrain.rounds.driver.durable import DurableJob
from sparkdrain.rounds.driver.inheritances import DriverState
from sparkdrain.rounds.slots import service
from tests.support.at_once import AtOnce
from tests.support.endless import numbers
from tests.support.in_memory_rounds import InMemoryRounds, plan_of
from tests.support.random_pipelines import Named, TotalAtEndOfWindow, count, results
from tests.support.restrictions import LeapingClock

WIDTH = 4
DRAIN_AFTER = 3


class Crash(BaseException):
    """The driver and all hosts are gone."""


class Fate:
    """Strikes at a step of the drain, when it is reached for the n-th time."""

    step: str | None = None
    left = 0

    @classmethod
    def decide(cls, step: str | None, nth: int = 0) -> None:
        cls.step, cls.left = step, nth

    @classmethod
    def reach(cls, step: str) -> None:
        if step == cls.step:
            cls.left -= 1
            if cls.left < 0:
                cls.step = None
                raise Crash(step)


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    monkeypatch.setattr(service, "Uploader", AtOnce)
    Fate.decide(None)


def reaching(step):
    """What is made of windows and timers passes here, in the same bundle."""

    def reach(element):
        if caused_by_drain():
            Fate.reach(step)
        return element

    return beam.Map(reach).with_output_types(tuple[str, int])


@functools.cache
def plan():
    """Numbers; sums of them by their rest behind two shuffles, and behind state and timers."""
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    read = pipeline | Named(numbers("a", "b"))
    _ = read | "read" >> beam.Map(lambda pair: ("read", *pair)) | "count read" >> beam.Map(count)
    rest = read | beam.MapTuple(lambda _, n: (f"{n % 3}", n)).with_output_types(tuple[str, int])
    windows = rest | beam.WindowInto(FixedWindows(WIDTH))
    sums = windows | beam.CombinePerKey(sum) | "sum" >> reaching("during windows")
    all_ = sums | "all" >> beam.MapTuple(lambda _, n: ("all", n))
    _ = all_ | "again" >> beam.CombinePerKey(sum) | "count all" >> beam.Map(count)
    timed = windows | beam.ParDo(TotalAtEndOfWindow()) | "timed" >> reaching("during timers")
    _ = timed | "count timed" >> beam.Map(count)
    return plan_of(pipeline)


def expected(read) -> Counter:
    """The second shuffle's sums and the timers' totals, by window."""
    sums, timed = Counter(), Counter()
    for n in read:
        sums["all", n // WIDTH] += n
        timed[f"{n % 3}", n // WIDTH] += n + 1
    both = [*sums.items(), *timed.items()]
    return Counter((key, total, window * WIDTH) for (key, window), total in both)


class Job:
    """A job in a folder, with as many lives as it needs; whoever starts it has it drained."""

    def __init__(self, folder) -> None:
        self.folder = str(folder)
        self.plan = plan()
        self.published: list = []
        self.at_cut: list | None = None
        self.begun = None
        self.rounds_left = DRAIN_AFTER

    def durable(self, cls=DurableJob):
        known = DurableJob.at(self.folder, "job", "run", {}, 2, 2)
        return cls(known.storage, known.paths, "run", {}, 2, 2)

    def live(self):
        job = self

        class Mortal(DurableJob):
            def publish(self, cut) -> None:
                Fate.reach(f"before {job.name_of(cut)}")
                super().publish(cut)
                job.begun = cut
                Fate.reach(f"during {job.name_of(cut)}")

            def is_published(self) -> bool:
                published = super().is_published()
                cut = job.begun
                if published and cut is not None:
                    job.is_durable()
                    Fate.reach(f"after {job.name_of(cut)}")
                return published

        durable = self.durable(Mortal)
        rounds = InMemoryRounds(
            self.plan,
            2,
            fail=self.reach,
            durable=durable,
            clock=LeapingClock(),
            elements=6,
        )
        rounds.loop.drain.signal = DrainSignal()
        tell = rounds.loop.tell

        def look(schedule, reports) -> None:
            tell(schedule, reports)
            self.rounds_left -= 1
            self.ask(rounds)

        rounds.loop.tell = look
        self.ask(rounds)
        try:
            rounds.run_to_end()
            return results(rounds.schedule.reports()), rounds.schedule.is_drained()
        finally:
            # A thread of a process that died would be dead; here it may come to its end.
            rounds.close()
            durable.settle()
            if self.begun is not None and DurableJob.is_published(durable):
                self.is_durable()

    def is_durable(self) -> None:
        cut, self.begun = self.begun, None
        self.published.append(cut)
        if self.at_cut is None and cut.drain is not None:
            self.at_cut = read_in(results(cut.reports.values()))

    def ask(self, rounds) -> None:
        if self.rounds_left <= 0:
            rounds.loop.drain.signal.request(DrainNotification.create("run", 0))

    def reach(self, header) -> None:
        if header.orders.last:
            Fate.reach("while the outside is told")
        elif header.orders.held:
            Fate.reach("between the request and the cut")
        elif header.orders.drain is not None:
            Fate.reach("at the sources" if header.level < 2 else "amid shuffles")

    @staticmethod
    def name_of(cut) -> str:
        match cut.phase:
            case DrainPhase.READING:
                return ""
            case DrainPhase.PUBLISHING:
                return "the last checkpoint"
            case DrainPhase.DRAINED:
                return "it is over"
            case _:
                return "the cut is durable"


def read_in(made) -> list:
    rows = map(json.loads, made)
    return sorted((row[1], row[2]) for row in rows if row[0] == "read")


def check(job, made) -> None:
    assert set(made.values()) == {1}
    read = read_in(made)
    rows = [json.loads(row) for row in made]
    out = [(key, total, start_of(window)) for key, total, *window in rows if key != "read"]
    assert Counter(out) == expected(n for _, n in read)
    for source in "ab":
        own = [n for s, n in read if s == source]
        assert own == list(range(len(own)))
    assert job.at_cut in (None, read), "something was read after the cut"


def start_of(window) -> int:
    return int(float(window[0].removeprefix("[").partition(",")[0]))


STEPS = [
    ("between the request and the cut", 1),
    ("before the cut is durable", 1),
    ("during the cut is durable", 1),
    ("after the cut is durable", 1),
    ("at the sources", 3),
    ("amid shuffles", 6),
    ("during windows", 2),
    ("during timers", 2),
    ("before the last checkpoint", 1),
    ("during the last checkpoint", 1),
    ("after the last checkpoint", 1),
    ("while the outside is told", 3),
    ("before it is over", 1),
    ("during it is over", 1),
    ("after it is over", 1),
]


@pytest.mark.parametrize(
    ("step", "nth"),
    [
        pytest.param(step, nth, marks=[pytest.mark.slow] * (nth > 0))
        for step, times in STEPS
        for nth in range(times)
    ],
)
def test_a_job_that_dies_at_this_step_drains_on_and_everything_comes_out_once(step, nth, tmp_path):
    job = Job(tmp_path)
    Fate.decide(step, nth)
    with pytest.raises(Crash, match=step):
        job.live()
    if step not in ("during it is over", "after it is over"):
        if job.published:
            with pytest.raises(CheckpointRefused, match="Give --resume"):
                job.durable().check(resume=False)
        made, is_drained = job.live()
        assert is_drained
        check(job, made)
    assert [cut.phase for cut in job.published][-2:] == [DrainPhase.PUBLISHING, DrainPhase.DRAINED]
    # A new run of the same name: nothing of the old one is there for it.
    new = job.durable()
    new.run_id = "another"
    new.check(resume=False)
    assert new.take(resume=False) is None


def test_what_checkpoints_of_a_drain_hold(tmp_path):
    """The cut comes first; at the end there is nothing inside, and the place of sources is told."""
    job = Job(tmp_path)
    made, is_drained = job.live()
    assert is_drained
    check(job, made)
    names = [job.name_of(cut) for cut in job.published]
    assert names[-2:] == ["the last checkpoint", "it is over"]
    assert names.index("the cut is durable") == next(
        number for number, cut in enumerate(job.published) if cut.drain is not None
    )
    storage = storage_at(job.folder)
    kept = {DriverState.of(found.manifest).phase: found for found in find(storage, job.folder)}
    over = kept[DrainPhase.DRAINED].manifest
    assert DriverState.of(over).drain == job.published[-1].drain
    assert over.entries().keys() == kept[DrainPhase.PUBLISHING].manifest.entries().keys()
    for shard in over.shards:
        left = contents(storage, kept[DrainPhase.DRAINED].paths, shard)
        # Where time stood on inputs when the drain began, and numbers of restrictions.
        assert {tag for _, _, tag in left} <= {b"n", b"m", b"h", b"t", b"r", b"counts"}


def test_sources_are_cut_durably_before_anybody_hears_of_the_drain(tmp_path):
    job = Job(tmp_path)
    reach, heard = job.reach, []

    def look(header) -> None:
        if header.orders.drain is not None and not heard:
            heard.append([job.name_of(cut) for cut in job.published])
        reach(header)

    job.reach = look
    job.live()
    assert "the cut is durable" in heard[0]


# --- who is told ----------------------------------------------------------------------------------

HEARD: list = []


class Hears(beam.DoFn):
    """Is told that it is drained, and makes an element then."""

    def process(self, element):
        yield element

    def on_drain(self):
        HEARD.append(caused_by_drain())
        yield WindowedValue(("told", 1), Timestamp(10**6), (GlobalWindow(),))


def plan_with_a_hook():
    """Nothing of it is inside between rounds that would come to the hook later."""
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    told = pipeline | Named(numbers("a", "b")) | beam.Reshuffle() | beam.ParDo(Hears())
    sums = told | beam.WindowInto(FixedWindows(10**6)) | beam.CombinePerKey(sum)
    _ = sums | beam.Map(count)
    return plan_of(pipeline)


def test_hooks_are_called_in_every_slot_also_where_nothing_came_since_the_job_was_resumed(tmp_path):
    HEARD.clear()
    job = Job(tmp_path)
    job.plan = plan_with_a_hook()
    Fate.decide("after the cut is durable")
    with pytest.raises(Crash):
        job.live()
    assert HEARD == []
    made, is_drained = job.live()
    assert is_drained
    assert HEARD == [True, True]
    assert [json.loads(row)[:2] for row in made if json.loads(row)[0] == "told"] == [["told", 2]]
