"""Jobs with ``--standby`` in one process, behind an engine that only waits and obeys."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
from apache_beam.portability.api import beam_job_api_pb2, beam_runner_api_pb2
from fake_engine import FakeEngine

from sparkdrain import redaction
from sparkdrain.coordination.address import StoreAddress
from sparkdrain.coordination.stores import STORES
from sparkdrain.drain import records, runs
from sparkdrain.errors import BadOption, Cancelled, UserCodeError
from sparkdrain.invocation import Outcome
from sparkdrain.jobs.engine import SparkEngine
from sparkdrain.jobs.job import Job
from sparkdrain.jobs.messages import is_end_elsewhere, now
from sparkdrain.jobs.served import Submission
from sparkdrain.jobs.states import name
from sparkdrain.options import JobSettings
from sparkdrain.standby.leadership import SteppedDown

S = beam_job_api_pb2.JobState


class Endless(FakeEngine):
    """Waits until it leads, then until the job is drained or cancelled, or ``end`` is called.

    A claim is counted as storage would.
    """

    epochs = 0

    def __init__(self) -> None:
        super().__init__()
        self.stopped = threading.Event()
        self.failure: Exception | None = None
        self.number = 0

    def check(self, pipeline=None, settings=None) -> None:
        """As a contender, too: nothing is wrong."""

    def shares(self, epoch: int) -> bool:
        return True

    def expect(self, *, is_next: bool) -> None:
        pass

    def end(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.stopped.set()

    def execute(self, invocation):
        while True:
            invocation.leadership.wait(self, invocation.cancel)
            try:
                invocation.leadership.check()
                break
            except SteppedDown:
                continue  # the machine is busy
        Endless.epochs += 1
        invocation.leadership.took(Endless.epochs)
        invocation.observer.began(Endless.epochs)
        self.calls.append(invocation)
        invocation.cancel.on_cancel(self.stopped.set)
        invocation.drain.on_request(self.stopped.set)
        assert self.stopped.wait(60)
        if invocation.cancel.is_cancelled():
            raise Cancelled
        if self.failure is not None:
            raise self.failure
        return Outcome(drained=invocation.drain.requested() is not None)


@pytest.fixture
def store(tmp_path):
    return StoreAddress("file", str(tmp_path / "store"))


@pytest.fixture
def start(store):
    made = []

    def begin(**more) -> tuple[Job, Endless]:
        engine = Endless()
        settings = replace(
            JobSettings(),
            checkpoint_dir="/checkpoints",
            streaming=True,
            standby=True,
            standby_lease_ms=3000,
            metadata_store=store,
            drain_poll_ms=20,
            **more,
        )
        submission = Submission(
            f"job-{len(made)}",
            "counts",
            beam_runner_api_pb2.Pipeline(),
            {},
            {},
            settings,
            "",
        )
        job = Job(submission, engine, now)
        made.append(job)
        job.run(lambda: (), lambda: None)
        return job, engine

    yield begin
    for job in made:
        job.cancel()
        job.story.wait(10)


def until(holds) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def state(job: Job) -> str:
    return name(job.state.state)


def texts(job: Job) -> list[str]:
    return [
        entry.message_response.message_text for entry in job.story.messages.follow(lambda: False)
    ]


def leads(job: Job) -> None:
    until(lambda: state(job) == "RUNNING")


def waits(job: Job) -> None:
    until(lambda: any(" waits: " in text for text in texts(job)))
    assert state(job) == "STARTING"


def test_a_job_that_is_drained_by_name_ends_so_for_all_its_drivers(start, store):
    leader, _ = start()
    leads(leader)
    other, engine = start()
    waits(other)
    opened = STORES.open(store)
    runs.request(opened, "counts", 1)
    for job in (leader, other):
        until(lambda job=job: state(job) == "DRAINED")
    assert not engine.calls
    assert not records.read(opened, lambda error: None)
    opened.close()


def test_a_drain_that_is_asked_of_a_driver_that_waits_reaches_the_leader(start):
    leader, _ = start()
    leads(leader)
    other, _ = start()
    waits(other)
    other.drain()
    for job in (leader, other):
        until(lambda job=job: state(job) == "DRAINED")


def test_a_drain_goes_through_a_failover(start, store):
    leader, engine = start()
    leads(leader)
    other, _ = start()
    waits(other)
    leader._drain.signal.request = lambda notification: False  # it is dead: nothing reaches it
    opened = STORES.open(store)
    runs.request(opened, "counts", 1)
    opened.close()
    engine.end(UserCodeError("dead"))
    until(lambda: state(other) == "DRAINED")


def test_a_job_that_is_cancelled_where_it_leads_is_cancelled_for_all_and_that_is_no_error(start):
    leader, _ = start()
    leads(leader)
    other, _ = start()
    waits(other)
    leader.cancel()
    until(lambda: state(other) == "CANCELLED")
    entries = other.story.messages.follow(lambda: False)
    assert any(is_end_elsewhere(entry.message_response) for entry in entries)


def test_a_job_that_is_done_is_done_for_all(start):
    leader, engine = start()
    leads(leader)
    other, _ = start()
    waits(other)
    engine.end()
    until(lambda: state(other) == "DONE")


def test_a_leader_that_leaves_is_followed_and_its_run_goes_on(start, store):
    leader, _ = start()
    leads(leader)
    other, _ = start()
    waits(other)
    leader.leave()
    leads(other)
    assert state(leader) == "CANCELLED"
    opened = STORES.open(store)
    (run,) = runs.known(opened)
    opened.close()
    assert (run.run_id, run.state) == (leader.submission.job_id, "RUNNING")
    assert run.job_id == other.submission.job_id


def test_a_driver_that_waits_and_leaves_changes_nothing(start):
    leader, _ = start()
    leads(leader)
    other, _ = start()
    waits(other)
    other.cancel()
    until(lambda: state(other) == "CANCELLED")
    assert state(leader) == "RUNNING"
    third, _ = start()
    waits(third)


def test_what_a_leader_leaves_of_its_failure_has_no_secret(start, tmp_path, monkeypatch):
    monkeypatch.setattr(redaction._Known, "values", ("HUNTER2-planted",))
    leader, engine = start()
    leads(leader)
    engine.end(RuntimeError("cannot log in with HUNTER2-planted"))
    until(lambda: state(leader) == "FAILED")
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"cannot log in with ***" in kept
    assert b"HUNTER2" not in kept


def test_a_failure_goes_to_the_next_driver_and_at_last_fails_all(start):
    made = [start(recoveries=1)]
    leads(made[0][0])
    for _ in range(2):
        made.append(start(recoveries=1))
        waits(made[-1][0])
    made[0][1].end(UserCodeError("ValueError: no"))
    until(lambda: state(made[0][0]) == "FAILED")
    until(lambda: "RUNNING" in [state(job) for job, _ in made])
    (again,) = [one for one in made if state(one[0]) == "RUNNING"]
    again[1].end(UserCodeError("ValueError: no"))
    for job, _ in made:
        until(lambda job=job: state(job) == "FAILED")
        assert any("ValueError: no" in text for text in texts(job))


def test_a_drain_that_takes_too_long_fails_for_all(start):
    leader, _ = start(drain_limit_ms=100)
    leads(leader)
    other, _ = start(drain_limit_ms=100)
    waits(other)
    leader.give_up("fail", "it took too long")
    until(lambda: state(other) == "FAILED")


def test_the_job_tells_counters_of_leading(start):
    leader, _ = start()
    leads(leader)
    found = {info.labels["NAME"]: info for info in leader.metrics().committed}
    assert "leads" in found
    assert found["leads"].labels["NAMESPACE"] == "sparkdrain.standby"


def settings(**more) -> JobSettings:
    given = {
        "checkpoint_dir": "/checkpoints",
        "streaming": True,
        "standby": True,
        "metadata_store": StoreAddress("file", "/store"),
        "spark_master_url": "local[2]",
    }
    return JobSettings(**{**given, **more})


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (
            {"metadata_store": StoreAddress("memory", "")},
            "is in this process only. Give",
        ),
        ({"spark_master_url": "spark://host:7077"}, "the loss of a machine, and --metadata_store"),
        ({"spark_master_url": "yarn"}, "Give zookeeper:, kafka: or azure:, or file: on NFS"),
        ({"drain_on_signal": "TERM"}, "a signal stops one driver"),
        ({"streaming": False}, "is for streaming jobs, and this is a batch job"),
    ],
)
def test_what_cannot_stand_by_is_refused_at_submission(more, says):
    with pytest.raises(BadOption, match=says):
        SparkEngine().check(beam_runner_api_pb2.Pipeline(), settings(**more))


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]", None])
def test_drivers_of_a_local_master_may_be_on_one_machine(master):
    SparkEngine().check(beam_runner_api_pb2.Pipeline(), settings(spark_master_url=master))


def test_standby_needs_checkpoints():
    with pytest.raises(BadOption, match="--standby has no effect without --checkpoint_dir"):
        settings(checkpoint_dir="").check_needs()


def test_the_time_of_the_lease_needs_standby():
    with pytest.raises(BadOption, match="--standby_lease_ms has no effect without --standby"):
        settings(standby=False, standby_lease_ms=900).check_needs()
