"""A job on a disk that loses what was not synced ends with what it would have made unharmed.

Checkpoints, the directories in which RocksDB works, and the metadata store are on that disk. Each
life of the job is a process of its own, which dies at some change of the disk, with the power or
alone. Rounds, their commits and the steps of a transaction with brokers touch a file there, so that
they are changes, too. What was told to the outside is what the job has in the end: nothing is lost,
nothing is doubled; an exactly-once sink writes each record to brokers once. Who asked for the drain
is heard. Nobody is told of an end before its manifest is there.

Lives are forked, by a process that has no threads of RocksDB: a child would wait for them forever.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import count
from multiprocessing import get_context
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from exact_job import TELL, check_exact, exact_plan
from kept_kafka import KeptKafka

from sparkdrain.checkpoints.local_storage import LocalStorage
from sparkdrain.checkpoints.paths import Paths
from sparkdrain.checkpoints.publish import newest
from sparkdrain.coordination.address import parse
from sparkdrain.coordination.stores import Stores
from sparkdrain.drain.records import clean_up, first_for, read
from sparkdrain.drain.runs import GOOD_ENDS, Run, begin, known, request
from sparkdrain.drain.runs import tell as tell_state
from sparkdrain.drain.signal import DrainSignal
from sparkdrain.io.kafka import WriteToKafka, choose, patience
from sparkdrain.rounds.driver.durable import DurableJob
from sparkdrain.rounds.slots import service
from tests.support.at_once import AtOnce
from tests.support.in_memory_rounds import InMemoryRounds
from tests.support.lossy_disk import NO_DISK, LossyDisk, Nothing
from tests.support.random_pipelines import results

if TYPE_CHECKING:
    from sparkdrain.drain.notification import DrainNotification

pytestmark = pytest.mark.skipif(bool(NO_DISK), reason=NO_DISK)

SLOTS = 2
# A life that ends by itself makes about so many changes of the disk, and at least the first.
CHANGES = 1200
OUT: list[Any] = []
# Of the outbox of an exactly-once sink, as fake brokers see it.
OUTBOX = ("fence", "recorded", "begin", "send", "record", "commit", "committed")
RECORDS = ("run record", "drain record")
# What the outside relies on from the moment when it is told.
TOLD = {what: f"told: {what}" for what in ("begun", "asked", "checkpoint", "removed", "ended")}
TOUCHED = ("round", "round's commit", *OUTBOX, *TOLD.values())
PLACES = {"files": "upload", "manifests": "manifest", "claims": "claim"}
STEPS = (*TOUCHED, *RECORDS, *PLACES.values(), "state on the local disk")


class StepOf:
    """Which step of a job a change of its disk is part of."""

    def __init__(self) -> None:
        self._record, _ = RECORDS

    def __call__(self, path: str) -> str:
        match path.split("/"):
            case [_, "steps", name] if name in RECORDS:
                self._record = name
                return f"before a {name}"
            case [_, "steps", name]:
                return name
            case [_, "metadata", *_]:
                return self._record
            case [_, "kept", "here", "job", place, *_]:
                return PLACES.get(place, "folder")
            case [_, "kept", *_]:
                return "folder"
            case _:
                return "state on the local disk"


def tell(what, value) -> None:
    """To the world outside, which keeps its power."""
    out, mark = OUT
    os.write(out, f"{json.dumps([what, value])}\n".encode())
    if what in TOLD:
        mark(TOLD[what])


class Telling(DurableJob):
    """Tells which checkpoints are durable."""

    def is_published(self) -> bool:
        published = super().is_published()
        if published:
            tell("checkpoint", self.number)
        return published


class Record:
    """The run as a metadata store knows it, and as the outside is told."""

    def __init__(self, address, root, epoch, mark) -> None:
        self.mark = mark
        mark("run record")
        self.store = Stores().open(parse(address))
        self.run = Run("run", f"job-{epoch}", "job", "", "RUNNING", True, 0, root, epoch)

    def begin(self, *, is_over) -> DrainNotification | None:
        """The request to drain, if the run was asked and has not ended well."""
        (before, *_) = [*known(self.store), Run("run", "", "job", "", "RUNNING", True, 0)]
        asked = first_for("run", read(self.store, lambda error: None))
        tell("known", [before.epoch, before.state, asked and str(asked.id)])
        if before.state in GOOD_ENDS:
            assert is_over, "the run ended well before its last manifest was there"
            return asked
        begin(self.store, self.run)
        tell("begun", self.run.epoch)
        return asked

    def request(self) -> DrainNotification:
        self.mark("drain record")
        _, asked = request(self.store, "run", 0)
        tell("asked", str(asked.id))
        return asked

    def end(self) -> None:
        tell("ends", True)
        self.mark("drain record")
        clean_up(self.store, "run")
        tell("removed", True)
        self.mark("run record")
        tell_state(self.store, self.run, "DRAINED")
        tell("ended", True)


class Job:
    """A job on a disk that loses its power. ``kind`` is of its metadata store."""

    def __init__(self, disk, rng, drains, kind) -> None:
        self.disk = disk
        disk.lay_down(b"steps", *(step.encode() for step in (*TOUCHED, *RECORDS)))
        self.metadata = f"{kind}:{disk.path}/metadata/{kind}"
        self.epoch = 0
        self.asked = None
        self.end: set[str] = set()
        self.failure = None
        self.rng = rng
        self.plan = exact_plan(sink=WriteToKafka("fake", "out", exactly_once="sink", groups=2))
        self.brokers = disk.path.with_suffix(".kafka")
        self.effects: Counter = Counter()
        self.published = 0
        self.losses: Counter = Counter()
        self.drain_after = rng.choice([None, rng.randrange(12)]) if drains else None

    def live(self, change, step=None):
        """A life that ends at a change of the disk, or by itself: then what it has made.

        If a step is named, its changes are counted only.
        """
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            OUT[:] = [writing, self._mark]
            TELL[:] = [partial(tell, "effect")]
            self._die_after(self._work)
        os.close(writing)
        self.disk.lose_power_at(pid, change, step)
        with os.fdopen(reading, encoding="ascii") as told:
            lines = [json.loads(line) for line in told if line.endswith("\n")]
        os.waitpid(pid, 0)
        made = [self._hear(what, value) for what, value in lines]
        return made[-1] if made else None

    def _hear(self, what, value):
        """What the job has made, once it says so."""
        match what:
            case "effect":
                self.effects[json.dumps(value)] += 1
            case "checkpoint":
                self.published = max(self.published, value)
            case "taken":
                assert value >= self.published, "a checkpoint that was told of is gone"
            case "begun":
                self.epoch = max(self.epoch, value)
            case "asked":
                self.asked = value
                self.end.discard("removed")
            case "ends" | "removed" | "ended":
                self.end.add(what)
            case "known":
                self._check_known(*value)
            case "made":
                return Counter(value)
            case "failed":
                assert self.disk.is_off or self.disk.is_full, value
                self.failure = value

        return None

    def _check_known(self, epoch, state, asked) -> None:
        """What the metadata store knows is what was told."""
        assert epoch >= self.epoch, "a run that was told of is gone"
        assert state in GOOD_ENDS or "ended" not in self.end, "an end that was told of is gone"
        is_there = "ends" in self.end or asked == self.asked or self.asked is None
        assert is_there, "a request to drain that was told of is gone"
        assert not ("removed" in self.end and asked), "a request that was removed is back"

    def check(self, made) -> None:
        """What was told to the outside is what the job has in the end."""
        check_exact(made, self.effects, whole=self.drain_after is None)
        written = [json.dumps(json.loads(value)) for value in KeptKafka(self.brokers).values("out")]
        assert sorted(written) == sorted(self.effects), "records are lost or doubled"

    def end_life(self):
        """A process may also die alone."""
        if self.rng.random() < 0.8:
            self.disk.lose_power(self.rng)
            self.losses[self.disk.died_at] += 1
        else:
            self.disk.keep_power()

    def _mark(self, step) -> None:
        """A change of the disk that needs no room."""
        os.utime(self.disk.path / "steps" / step)

    def _die_after(self, work) -> None:
        try:
            work()
        except BaseException:  # noqa: BLE001 - told outside
            self._tell_failure()
        finally:
            os._exit(0)

    @staticmethod
    def _tell_failure() -> None:
        _, error, _ = sys.exc_info()
        kinds = [kind.__name__ for kind in type(error).__mro__]
        tell("failed", [kinds, str(error)[:3000], traceback.format_exc()[-3000:]])

    def _work(self) -> None:
        scratch = self.disk.path / "scratch"
        scratch.mkdir(exist_ok=True)
        tempfile.tempdir = str(scratch)
        service.Uploader = AtOnce  # the script's clock waits for no thread
        choose.open_client = KeptKafka(self.brokers, self._mark).open_client
        patience._PAUSE = 0.0
        at = DurableJob.at(str(self.disk.path / "kept/here"), "job", "run", {}, SLOTS, 2)
        durable = Telling(at.storage, at.paths, "run", {}, SLOTS, 2)
        for _ in durable.keep_to(group=False):
            pass
        rounds = InMemoryRounds(
            self.plan, SLOTS, durable=durable, fail=lambda header: self._mark("round")
        )
        tell("taken", durable.number)
        record = Record(self.metadata, durable.paths.root, durable.epoch, self._mark)
        signal = rounds.loop.drain.signal = DrainSignal()
        rounds.loop.drain.timer_repeats = 10
        if (asked := record.begin(is_over=rounds.is_over())) is not None:
            signal.request(asked)
        watch = rounds.loop.tell

        def drain(schedule, reports) -> None:
            watch(schedule, reports)
            self._mark("round's commit")
            late = self.drain_after is not None and schedule.number >= self.drain_after
            if late and signal.requested() is None:
                signal.request(record.request())

        rounds.loop.tell = drain
        rounds.run_to_end()
        durable.settle()
        record.end()
        tell("made", results(rounds.schedule.reports()))


def lives(disk, rng, most, *, drains, kind="file"):
    """A job with so many losses of power at most, and what it has made in the end."""
    job = Job(disk, rng, drains, kind)
    while True:
        change = step = None
        if job.losses.total() < most:
            step = rng.choice([None, rng.choice(STEPS)])
            # Some steps are one change, which comes once in a life.
            change = rng.randrange(rng.choice([1, 8] if step else [60, CHANGES]))
        made = job.live(change, step)
        if made is not None:
            return job, made
        job.end_life()


def told(place, kind, words) -> list[str]:
    """Steps at which a job lost power: right after it had said each of these words first."""
    disk = LossyDisk(place, StepOf())
    try:
        job = Job(disk, Random(1), drains=True, kind=kind)
        job.drain_after = 3
        died = []
        for word in words:
            assert job.live(0, TOLD[word]) is None
            died.append(disk.died_at)
            disk.lose_power(Nothing())
        job.check(job.live(None))
        return died
    finally:
        disk.close()


def test_what_was_told_outlives_the_power_though_nothing_is_kept_that_was_not_synced(tmp_path):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
        for kind, words in ("file", [*TOLD]), ("rocksdb", ["begun", "removed"]):
            died = apart.submit(told, tmp_path / kind, kind, words).result()
            assert died == [TOLD[word] for word in words]


def taken_up_early(place) -> None:
    """A process dies alone while its first manifest is seen and not on disk yet.

    The next one goes on from there, tells of effects, and loses its power.
    """
    disk = LossyDisk(place, StepOf())
    try:
        job = Job(disk, Random(1), drains=False, kind="file")
        changes = count()
        while newest(LocalStorage(), Paths(str(place / "kept/here"), "job")) is None:
            assert job.live(next(changes), PLACES["manifests"]) is None
            disk.keep_power()
        assert not job.published
        assert job.live(0, "round's commit") is None
        assert job.effects
        disk.lose_power(Nothing())
        job.check(job.live(None))
    finally:
        disk.close()


def test_a_checkpoint_that_its_writer_did_not_make_durable_is_so_when_it_is_taken_up(tmp_path):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
        apart.submit(taken_up_early, tmp_path / "disk").result()


def crash(tmp_path, seeds, least, *, drains) -> Counter:
    """At which steps so many losses of power came at least, or as many as all seeds make."""
    count = os.cpu_count() or 1
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as apart:
        shares = [seeds[number::count] for number in range(count)]
        run = partial(losses_of, tmp_path, least=-(-least // count), drains=drains)
        losses = sum(apart.map(run, shares), Counter())
    print(*(f"{count:6} {step}" for step, count in losses.most_common()), sep="\n")
    return losses


def losses_of(tmp_path, seeds, least, *, drains) -> Counter:
    losses: Counter = Counter()
    for seed in seeds:
        place = tmp_path / str(seed)
        disk = LossyDisk(place, StepOf())
        try:
            kind = "rocksdb" if seed % 3 == 0 else "file"
            job, made = lives(disk, Random(seed), 6, drains=drains, kind=kind)
            job.check(made)
            losses += job.losses
        finally:
            disk.close()
        if losses.total() >= least:
            break
    return losses


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_job_that_loses_power_a_thousand_times_makes_everything_once(tmp_path):
    losses = crash(tmp_path, range(1000, 100_000), 1000, drains=True)
    assert losses.total() >= 1000
    assert losses.keys() >= {*STEPS}, "steps at which no power was lost"
