"""A driver whose job another driver has taken stops within seconds, whatever it is doing."""

from __future__ import annotations

import threading
import time

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.checkpoints.local_storage import LocalStorage
from sparkdrain.checkpoints.paths import Paths
from sparkdrain.errors import Cancelled, CheckpointFailed, Fenced
from sparkdrain.rounds.driver import lease_watch
from sparkdrain.rounds.driver.durable import DurableJob
from sparkdrain.rounds.driver.lease_watch import EVERY, GIVEN_UP, OLD, SILENT, LeaseWatch
from sparkdrain.types import CancelToken
from tests.support.in_memory_rounds import InMemoryRounds, plan_of
from tests.support.waiting import wait_until

A_MINUTE = 60_000_000
EFFECTS: list[float] = []


def effect(element):
    EFFECTS.append(time.monotonic())
    return element


class Running:
    """A job that makes a checkpoint a minute, in a thread."""

    def __init__(self, durable, first, every):
        self._ended = threading.Event()
        self.error = None
        pipeline = beam.Pipeline(options=PipelineOptions([]))
        start = Timestamp.of(time.time() + first)
        ticks = PeriodicImpulse(start, fire_interval=every)
        pipeline | ticks | beam.Map(effect)  # type: ignore[operator]
        self.rounds = InMemoryRounds(plan_of(pipeline), durable=durable, interval=A_MINUTE)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        try:
            self.rounds.run_to_end(seconds=100)
        except Exception as error:  # noqa: BLE001 - looked at by the test
            self.error = error
        self._ended.set()

    def wait(self, seconds):
        return self._ended.wait(seconds)


def job(folder):
    return DurableJob.at(str(folder), "job", "run", {}, 2, 3)


@pytest.fixture(autouse=True)
def _forget():
    EFFECTS.clear()


@pytest.mark.parametrize(("first", "every"), [(0, 0.05), (3600, 3600)], ids=["busy", "idle"])
def test_a_driver_that_was_replaced_stops_within_seconds(tmp_path, first, every):
    running = Running(job(tmp_path), first, every)
    try:
        wait_until(lambda: running.rounds.rounds)
        assert not running.wait(0.5)
    finally:
        job(tmp_path).take(resume=True)
        taken = time.monotonic()
        assert running.wait(20)
    assert isinstance(running.error, Fenced)
    assert max(EFFECTS, default=taken) - taken < 10
    running.rounds.close()


def test_no_round_begins_without_the_job(tmp_path):
    running = beam.Pipeline(options=PipelineOptions([]))
    running | beam.Create([1]) | beam.Map(effect)  # type: ignore[operator]
    rounds = InMemoryRounds(plan_of(running))

    def gone():
        message = "gone"
        raise Fenced(message)

    rounds.loop.before_round = gone
    with pytest.raises(Fenced):
        rounds.run_to_end()
    assert (rounds.rounds, EFFECTS) == ([], [])
    rounds.close()


class Lease:
    """A lease, and a clock, that are told what to say."""

    def __init__(self):
        self.now = 0.0
        self.error = None
        self.hangs = threading.Event()
        self.hangs.set()
        self.looks = 0

    def look(self):
        self.looks += 1
        self.hangs.wait(30)
        if self.error is not None:
            raise self.error

    def watch(self, outer=None):
        outer = outer or CancelToken()
        return LeaseWatch(self.look, outer, "/folder", 3600, lambda: self.now)


def test_a_process_that_was_stopped_looks_before_it_goes_on():
    lease = Lease()
    with lease.watch() as watch:
        watch.check()
        assert lease.looks == 0
        lease.now += OLD
        watch.check()
        assert lease.looks == 1
        lease.now += OLD
        lease.error = Fenced("gone")
        with pytest.raises(Fenced):
            watch.check()
        assert watch.cancel.is_cancelled()


def test_a_storage_that_hangs_costs_one_wait(monkeypatch):
    monkeypatch.setattr(lease_watch, "_PATIENCE", 0.2)
    lease = Lease()
    lease.hangs.clear()
    with lease.watch() as watch:
        lease.now += OLD
        watch.check()
        began = time.monotonic()
        for _ in range(100):
            watch.check()
        assert time.monotonic() - began < 10  # each look alone would cost 0.2
        lease.error = Fenced("gone")
        lease.hangs.set()
        assert watch.cancel.wait(20)
        with pytest.raises(Fenced):
            watch.check()


def test_a_look_that_fails_says_nothing():
    lease = Lease()
    lease.error = CheckpointFailed("no answer")
    with lease.watch() as watch:
        for _ in range(3):
            lease.now += OLD
            watch.check()
        assert lease.looks == 3
        assert not watch.cancel.is_cancelled()


@pytest.mark.parametrize("error", [None, CheckpointFailed("no answer")])
def test_rounds_cost_one_look_in_an_interval(error):
    lease = Lease()
    lease.error = error
    with lease.watch() as watch:
        for interval in range(3):
            assert lease.looks == interval
            lease.now += EVERY + 1
            for _ in range(100):
                watch.check()


def test_a_job_whose_storage_is_silent_stands_still_until_it_answers():
    lease = Lease()
    lease.error = CheckpointFailed("no answer")
    with lease.watch() as watch:
        lease.now += SILENT
        check = threading.Thread(target=watch.check)
        check.start()
        check.join(0.3)
        assert check.is_alive()
        lease.error = None
        lease.now += OLD
        check.join(20)
        assert not check.is_alive()


def test_a_job_whose_storage_is_silent_for_long_ends_and_says_why():
    lease = Lease()
    lease.error = CheckpointFailed("no answer from s3")
    with lease.watch() as watch:
        lease.now += GIVEN_UP
        said = r"claims in /folder .* for 300 s: no answer from s3\. .*--resume"
        with pytest.raises(CheckpointFailed, match=said):
            watch.check()


def test_a_job_that_stands_still_can_be_cancelled():
    lease, outer = Lease(), CancelToken()
    lease.error = CheckpointFailed("no answer")
    with pytest.raises(Cancelled), lease.watch(outer) as watch:
        lease.now += SILENT
        threading.Timer(0.1, outer.cancel).start()
        watch.check()


class SilentStorage(LocalStorage):
    """Claims can be listed while ``answers``."""

    def __init__(self):
        super().__init__()
        self.answers = True

    def list(self, folder):
        if folder.endswith("/claims") and not self.answers:
            message = f"{folder} cannot be listed"
            raise CheckpointFailed(message)
        return super().list(folder)


def test_a_job_makes_no_effects_while_its_storage_is_silent_and_goes_on(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(lease_watch, "OLD", 0.1)
    monkeypatch.setattr(lease_watch, "SILENT", 0.3)
    storage = SilentStorage()
    durable = DurableJob(storage, Paths(str(tmp_path), "job"), "run", {}, 2, 3)
    running = Running(durable, 0, 0.02)
    try:
        wait_until(lambda: EFFECTS)
        storage.answers = False
        wait_until(lambda: "/claims cannot be listed). The job stands still" in caplog.text, 10)
        made = len(EFFECTS)
        assert not running.wait(0.3)
        assert len(EFFECTS) == made
        storage.answers = True
        wait_until(lambda: len(EFFECTS) > made)
    finally:
        job(tmp_path).take(resume=True)
        assert running.wait(20)
    assert isinstance(running.error, Fenced)
    running.rounds.close()


def cancelled():
    message = "cancelled"
    raise Cancelled(message)


def test_a_job_that_is_cancelled_says_so():
    outer = CancelToken()
    with pytest.raises(Cancelled), Lease().watch(outer) as watch:
        outer.cancel()
        assert watch.cancel.is_cancelled()
        cancelled()


def test_what_ends_a_round_of_a_driver_that_was_replaced_is_that():
    lease = Lease()
    lease.error = Fenced("gone")
    with pytest.raises(Fenced), lease.watch() as watch:
        lease.now += OLD
        with pytest.raises(Fenced):
            watch.check()
        cancelled()
