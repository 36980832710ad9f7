"""Draining a job through its Job service and its metadata store, with engines that obey."""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import replace

import grpc
import pytest
from apache_beam.portability.api import beam_job_api_pb2 as api
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.job.utils import dict_to_struct
from fake_engine import FakeEngine, until_cancelled, until_drained

from sparkdrain import nfs
from sparkdrain.coordination.metadata import StoreDown
from sparkdrain.coordination.stores import STORES
from sparkdrain.drain import records, runs
from sparkdrain.drain.notification import DrainNotification
from sparkdrain.drain.phases import DrainPhase
from sparkdrain.drain.progress import Hold, Left, advanced, began
from sparkdrain.errors import (
    Cancelled,
    CheckpointRefused,
    DrainLimitExceeded,
    Fenced,
    UserCodeError,
)
from sparkdrain.invocation import Outcome
from sparkdrain.jobs import drain_progress
from sparkdrain.jobs.calls import DRY_RUN_KEY, ERROR_KIND_KEY
from sparkdrain.jobs.messages import failure_kind
from sparkdrain.jobs.states import name

S = api.JobState


class Client:
    """Starts and asks jobs of one service."""

    def __init__(self, stub) -> None:
        self.stub = stub

    def prepare(self, **options) -> str:
        options.setdefault("metadata_store", f"memory:{uuid.uuid4()}")
        options.setdefault("drain_poll_ms", "5")
        described = {f"beam:option:{key}:v1": text for key, text in options.items()}
        request = api.PrepareJobRequest(
            job_name="wc",
            pipeline=beam_runner_api_pb2.Pipeline(),
            pipeline_options=dict_to_struct(described),
        )
        return self.stub.Prepare(request).preparation_id

    def run(self, job_id: str) -> str:
        return self.stub.Run(api.RunJobRequest(preparation_id=job_id)).job_id

    def start(self, **options) -> str:
        return self.run(self.prepare(**options))

    def drain(self, job_id: str) -> str:
        return name(self.stub.Drain(api.DrainJobRequest(job_id=job_id)).state)

    def cancel(self, job_id: str) -> None:
        self.stub.Cancel(api.CancelJobRequest(job_id=job_id))

    def path(self, job_id: str) -> list[str]:
        stream = self.stub.GetStateStream(api.GetJobStateRequest(job_id=job_id))
        return [name(event.state) for event in stream]

    def messages(self, job_id: str) -> list[api.JobMessage]:
        stream = self.stub.GetMessageStream(api.JobMessagesRequest(job_id=job_id))
        return [r.message_response for r in stream if r.HasField("message_response")]

    def texts(self, job_id: str) -> str:
        return "\n".join(message.message_text for message in self.messages(job_id))

    def until(self, job_id: str, state: int) -> None:
        for event in self.stub.GetStateStream(api.GetJobStateRequest(job_id=job_id)):
            if event.state == state:
                return
        message = f"the job never became {name(state)}"
        raise AssertionError(message)

    def metrics(self, job_id: str, *metadata):
        request = api.GetJobMetricsRequest(job_id=job_id)
        return self.stub.GetJobMetrics.with_call(request, metadata=metadata)


@pytest.fixture
def client(connect):
    return lambda engine: Client(connect(engine))


def error_of(call) -> tuple[grpc.StatusCode, str, str]:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    kinds = dict(caught.value.trailing_metadata())
    return caught.value.code(), caught.value.details(), kinds.get(ERROR_KIND_KEY, "")


class Stopping:
    """Drains until it is let go."""

    def __init__(self) -> None:
        self.may_end = threading.Event()

    def __call__(self, call) -> Outcome:
        outcome = until_drained(call)
        call.cancel.on_cancel(self.may_end.set)
        assert self.may_end.wait(60)
        if call.cancel.is_cancelled():
            raise Cancelled
        return outcome


def counters(response) -> dict[tuple[str, str], int]:
    return {
        (info.labels["NAME"], info.labels["PTRANSFORM"]): info.payload[0]
        for info in response.metrics.attempted
    }


# --- the ways in --------------------------------------------------------------------------------


def test_a_running_job_is_drained_by_the_rpc_and_shows_each_state_once(client):
    jobs = client(FakeEngine(until_drained))
    job = jobs.start()
    jobs.until(job, S.RUNNING)
    assert jobs.drain(job) in ("DRAINING", "DRAINED")
    assert jobs.path(job) == ["STOPPED", "STARTING", "RUNNING", "DRAINING", "DRAINED"]
    assert f"The run '{job}' is drained, as was asked at" in jobs.texts(job)


@pytest.mark.parametrize("by", ["the rpc", "the store"])
def test_a_job_shows_that_it_drains_while_its_engine_is_at_work(client, store, address, by):
    go_on = threading.Event()

    def behave(call) -> Outcome:
        outcome = until_drained(call)
        assert go_on.wait(30)
        return outcome

    jobs = client(FakeEngine(behave))
    job = jobs.start(metadata_store=address)
    jobs.until(job, S.RUNNING)
    if by == "the rpc":
        assert jobs.drain(job) == "DRAINING"
    else:
        runs.request(store, job, 1)
    try:
        jobs.until(job, S.DRAINING)
    finally:
        go_on.set()
    assert jobs.path(job)[-2:] == ["DRAINING", "DRAINED"]


def test_a_notification_in_the_store_drains_a_running_job(client, store, address):
    engine = FakeEngine(until_drained)
    jobs = client(engine)
    job = jobs.start(metadata_store=address)
    jobs.until(job, S.RUNNING)
    _, notification = runs.request(store, job, 1)
    assert jobs.path(job) == ["STOPPED", "STARTING", "RUNNING", "DRAINING", "DRAINED"]
    assert engine.calls[0].drain.requested() == notification
    assert str(notification.id) in jobs.texts(job)


def test_a_run_that_is_named_can_be_drained_before_it_starts(client, store, address):
    """The engine is asked before it has read anything."""
    before = []

    def behave(call) -> Outcome:
        before.append(call.drain.requested())
        return Outcome(drained=True)

    notification = DrainNotification.create("mine", 5)
    records.write(store, notification)
    jobs = client(FakeEngine(behave))
    job = jobs.start(metadata_store=address, run_id="mine")
    assert jobs.path(job) == ["STOPPED", "STARTING", "DRAINING", "DRAINED"]
    assert before == [notification]


def test_a_job_that_is_starting_can_be_drained(client, monkeypatch):
    asked = threading.Event()
    jobs = client(FakeEngine(until_drained))
    monkeypatch.setattr(
        "sparkdrain.jobs.artifacts.Artifacts.collect", lambda *_: asked.wait(30) and ()
    )
    job = jobs.start()
    answers = []
    asking = threading.Thread(target=lambda: answers.append(jobs.drain(job)))
    asking.start()
    asking.join(0.2)
    assert asking.is_alive()  # nothing is written down before the job has begun
    asked.set()
    assert jobs.path(job) == ["STOPPED", "STARTING", "DRAINING", "DRAINED"]
    asking.join(30)
    assert answers[0] in ("DRAINING", "DRAINED")


# --- what is asked twice, too early, too late, of the wrong one -----------------------------------


def test_draining_twice_has_one_effect_and_the_first_request_counts(client, store, address):
    engine = FakeEngine(behave := Stopping())
    jobs = client(engine)
    job = jobs.start(metadata_store=address)
    jobs.until(job, S.RUNNING)
    assert jobs.drain(job) == "DRAINING"
    first = engine.calls[0].drain.requested()
    assert jobs.drain(job) == "DRAINING"
    assert records.read(store, pytest.fail) == [first]
    behave.may_end.set()
    assert jobs.path(job)[-2:] == ["DRAINING", "DRAINED"]
    assert engine.calls[0].drain.requested() == first


def test_many_who_drain_at_once_are_all_answered_and_one_request_is_written(client, store, address):
    jobs = client(FakeEngine(behave := Stopping()))
    job = jobs.start(metadata_store=address)
    jobs.until(job, S.RUNNING)
    answers, together = [], threading.Barrier(6)

    def ask() -> None:
        together.wait(30)
        answers.append(jobs.drain(job))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == ["DRAINING"] * 6
    assert len(records.read(store, pytest.fail)) == 1
    behave.may_end.set()
    assert jobs.path(job).count("DRAINING") == 1


@pytest.mark.parametrize(
    ("behave", "end"),
    [(lambda call: None, "DONE"), (lambda call: 1 / 0, "FAILED"), (until_drained, "DRAINED")],
)
def test_draining_a_job_that_is_over_answers_its_state(client, store, address, behave, end):
    jobs = client(FakeEngine(behave))
    job = jobs.start(metadata_store=address)
    if end == "DRAINED":
        jobs.drain(job)
    path = jobs.path(job)
    assert jobs.drain(job) == end
    assert jobs.path(job) == path
    assert records.read(store, pytest.fail) == []


def test_draining_a_cancelled_job_answers_its_state(client):
    jobs = client(FakeEngine())
    job = jobs.prepare()
    jobs.cancel(job)
    assert jobs.drain(job) == "CANCELLED"


def test_draining_a_job_that_nobody_knows_is_not_found(client):
    code, details, kind = error_of(lambda: client(FakeEngine()).drain("x"))
    assert (code, kind) == (grpc.StatusCode.NOT_FOUND, "NoSuchJob")
    assert "There is no job 'x'" in details


def test_draining_a_job_that_was_not_started_is_refused_with_another_way(client):
    jobs = client(FakeEngine())
    job = jobs.prepare()
    code, details, _ = error_of(lambda: jobs.drain(job))
    assert code == grpc.StatusCode.FAILED_PRECONDITION
    assert "has not been started" in details
    assert "name it with --run_id" in details


def test_a_job_that_must_not_be_drained_refuses_and_goes_on(client, store, address):
    jobs = client(FakeEngine(until_cancelled))
    job = jobs.start(metadata_store=address, drain="off")
    jobs.until(job, S.RUNNING)
    code, details, kind = error_of(lambda: jobs.drain(job))
    assert (code, kind) == (grpc.StatusCode.FAILED_PRECONDITION, "DrainDisabled")
    assert "started with --drain=off" in details
    with pytest.raises(runs.DrainDisabled):
        runs.request(store, job, 1)
    assert records.read(store, pytest.fail) == []
    jobs.cancel(job)
    assert jobs.path(job)[-1] == "CANCELLED"


def test_a_run_that_was_told_to_drain_does_not_start_deaf(client, store, address):
    notification = DrainNotification.create("mine", 5)
    records.write(store, notification)
    jobs = client(FakeEngine())
    job = jobs.prepare(metadata_store=address, run_id="mine", drain="off")
    code, details, kind = error_of(lambda: jobs.run(job))
    assert (code, kind) == (grpc.StatusCode.FAILED_PRECONDITION, "DrainDisabled")
    assert str(notification.id) in details
    assert jobs.stub.GetState(api.GetJobStateRequest(job_id=job)).state == S.STOPPED
    assert runs.known(store) == []


# --- how it ends ----------------------------------------------------------------------------------


def test_a_batch_job_that_is_drained_reads_everything_and_is_done(client, store, address):
    may_end = threading.Event()

    def behave(call) -> None:
        assert may_end.wait(60)

    jobs = client(FakeEngine(behave))
    job = jobs.start(metadata_store=address)
    jobs.until(job, S.RUNNING)
    assert jobs.drain(job) == "DRAINING"
    may_end.set()
    assert jobs.path(job) == ["STOPPED", "STARTING", "RUNNING", "DRAINING", "DONE"]
    assert records.read(store, pytest.fail) == []


def test_a_job_that_is_cancelled_while_it_drains_is_cancelled_and_keeps_the_request(
    client, store, address
):
    jobs = client(FakeEngine(Stopping()))
    job = jobs.start(metadata_store=address, run_id="mine")
    jobs.until(job, S.RUNNING)
    jobs.drain(job)
    jobs.cancel(job)
    assert jobs.path(job)[-3:] == ["DRAINING", "CANCELLING", "CANCELLED"]
    assert [each.run_id for each in records.read(store, pytest.fail)] == ["mine"]
    assert runs.find(store, "mine").state == "CANCELLED"


def test_a_job_that_fails_while_it_drains_has_failed_and_drains_on_when_it_is_taken_up_again(
    client, store, address
):
    def behave(call) -> None:
        until_drained(call)
        message = "ValueError: in a timer"
        raise UserCodeError(message)

    jobs = client(FakeEngine(behave))
    job = jobs.start(metadata_store=address, run_id="mine")
    jobs.drain(job)
    assert jobs.path(job)[-2:] == ["DRAINING", "FAILED"]
    (kept,) = records.read(store, pytest.fail)

    again = FakeEngine(until_drained)
    jobs = client(again)
    job = jobs.start(metadata_store=address, run_id="mine")
    assert jobs.path(job)[-2:] == ["DRAINING", "DRAINED"]
    assert again.calls[0].drain.requested() == kept
    assert records.read(store, pytest.fail) == []


def test_a_new_run_ignores_the_request_for_the_old_one_and_leaves_it_alone(client, store, address):
    old = DrainNotification.create("old", time.time_ns() // 1000)
    records.write(store, old)
    engine = FakeEngine(until_drained)
    jobs = client(engine)
    job = jobs.start(metadata_store=address, run_id="new")
    jobs.until(job, S.RUNNING)
    assert engine.calls[0].drain.requested() is None
    jobs.drain(job)
    assert jobs.path(job)[-1] == "DRAINED"
    assert records.read(store, pytest.fail) == [old]


def test_a_run_that_begins_removes_requests_for_others_that_are_a_month_old(client, store, address):
    now = time.time_ns() // 1000
    old = DrainNotification.create("lost", now - 31 * 24 * 3600 * 1_000_000)
    young = DrainNotification.create("other", now)
    for notification in (old, young):
        records.write(store, notification)
    jobs = client(FakeEngine())
    job = jobs.start(metadata_store=address)
    assert jobs.path(job)[-1] == "DONE"
    assert records.read(store, lambda error: None) == [young]
    assert "to drain the run 'lost' has expired after 30 days" in jobs.texts(job)


def test_a_drain_that_goes_on_after_its_driver_was_lost_cleans_up_under_the_old_id(
    client, store, address
):
    """The engine finds the request in its checkpoint; the new job has an id of its own."""
    old = DrainNotification.create("old", 1)
    records.write(store, old)
    lost = runs.Run("old", "old", "wc", "", "DRAINING", drain=True, began=1, checkpoints="/cp")
    runs.begin(store, lost)

    def behave(call):
        assert call.drain.requested() is None
        call.drain.request(old)
        return Outcome(drained=True)

    jobs = client(FakeEngine(behave, epoch=1))
    job = jobs.start(metadata_store=address, checkpoint_dir="/cp")
    assert jobs.path(job)[-3:] == ["RUNNING", "DRAINING", "DRAINED"]
    assert records.read(store, pytest.fail) == []
    assert {run.run_id: run.state for run in runs.known(store)} == {
        "old": "DRAINED",
        job: "DRAINED",
    }


@pytest.mark.parametrize("options", [{"resume": True}, {}])
def test_an_engine_hears_that_its_checkpoints_were_held(client, store, address, options):
    lost = runs.Run("lost", "lost", "wc", "", "FAILED", True, 1, checkpoints="/cp", epoch=4)
    runs.begin(store, lost)
    engine = FakeEngine(epoch=5)
    jobs = client(engine)
    jobs.path(jobs.start(metadata_store=address, checkpoint_dir="/cp", **options))
    assert engine.calls[0].held == 4


def test_who_resumes_a_job_hears_a_request_for_the_run_that_was_lost(client, store, address):
    lost = runs.Run("lost", "lost", "wc", "", "RUNNING", drain=True, began=1, checkpoints="/cp")
    runs.begin(store, lost)
    run, notification = runs.request(store, "wc", 1)
    assert run == lost
    engine = FakeEngine(until_drained)
    jobs = client(engine)
    job = jobs.start(metadata_store=address, checkpoint_dir="/cp", resume=True)
    assert jobs.path(job)[-2:] == ["DRAINING", "DRAINED"]
    assert engine.calls[0].drain.requested() == notification
    assert records.read(store, pytest.fail) == []
    assert [(each.run_id, each.job_id, each.state) for each in runs.known(store)] == [
        ("lost", job, "DRAINED")
    ]


def test_the_id_of_a_run_that_was_drained_is_not_taken_again(client, store, address):
    jobs = client(FakeEngine(until_drained))
    job = jobs.start(metadata_store=address, run_id="mine")
    jobs.drain(job)
    assert jobs.path(job)[-1] == "DRAINED"
    code, details, kind = error_of(lambda: jobs.start(metadata_store=address, run_id="mine"))
    assert (code, kind) == (grpc.StatusCode.ALREADY_EXISTS, "RunTaken")
    assert "The run 'mine' has ended as DRAINED" in details


def test_an_engine_that_ends_before_everybody_knows_of_the_drain_is_drained_all_the_same(client):
    jobs = client(FakeEngine(lambda call: Outcome(drained=True)))
    assert jobs.path(jobs.start())[-3:] == ["RUNNING", "DRAINING", "DRAINED"]


def test_a_run_is_listed_in_the_store_with_its_state(client, store, address):
    jobs = client(FakeEngine(behave := Stopping()))
    job = jobs.start(metadata_store=address, drain_poll_ms="60000")
    jobs.until(job, S.RUNNING)
    run = runs.find(store, "wc")
    assert (run.run_id, run.job_id, run.state, run.drain) == (job, job, "RUNNING", True)
    jobs.drain(job)
    assert runs.find(store, "wc").state == "DRAINING"
    behave.may_end.set()
    jobs.path(job)
    assert runs.find(store, "wc").state == "DRAINED"


# --- a start beside a job that runs ---------------------------------------------------------------


class Refusing(FakeEngine):
    """Refuses a job when it is told to, before the job begins."""

    def __init__(self) -> None:
        super().__init__()
        self.may_refuse = threading.Event()

    def execute(self, invocation):
        self.calls.append(invocation)
        assert self.may_refuse.wait(60)
        message = "there is a checkpoint"
        raise CheckpointRefused(message)


def written(store) -> dict[str, dict[str, object]]:
    return {name: store.all(name) for name in (runs.NAMESPACE, records.NAMESPACE, records.HEARD)}


@pytest.mark.parametrize("name", ["wc", "living"])
@pytest.mark.parametrize(
    "options",
    [
        {"checkpoint_dir": "/cp"},
        {"checkpoint_dir": "/cp", "resume": True},
        {"checkpoint_dir": "/cp", "run_id": "living"},
        {"checkpoint_dir": "/cp", "run_id": "another"},
        {"run_id": "living"},
        {},
    ],
)
def test_a_start_that_is_refused_leaves_the_store_and_the_running_job_alone(
    client, store, address, options, name
):
    jobs = client(FakeEngine(until_drained, epoch=1))
    living = jobs.start(metadata_store=address, run_id="living", checkpoint_dir="/cp")
    jobs.until(living, S.RUNNING)
    before = written(store)

    engine = Refusing()
    engine.may_refuse.set()
    others = client(engine)
    assert others.path(others.start(metadata_store=address, **options))[-1] == "FAILED"
    assert written(store) == before

    run, notification = runs.request(store, name, 1)
    assert (run.run_id, run.job_id) == ("living", living)
    assert notification is not None
    assert jobs.path(living)[-1] == "DRAINED"


def test_a_start_that_is_refused_does_not_give_its_id_to_the_next_one(client, store, address):
    lost = runs.Run("lost", "lost", "wc", "", "RUNNING", True, 1, checkpoints="/cp", epoch=1)
    runs.begin(store, lost)
    engine = Refusing()
    engine.may_refuse.set()
    refused = client(engine)
    refused.path(refused.start(metadata_store=address, checkpoint_dir="/cp"))

    jobs = client(FakeEngine(until_drained, epoch=2))
    job = jobs.start(metadata_store=address, checkpoint_dir="/cp", resume=True)
    jobs.until(job, S.RUNNING)
    assert [(run.run_id, run.job_id) for run in runs.known(store)] == [("lost", job)]
    jobs.drain(job)
    assert jobs.path(job)[-1] == "DRAINED"


def test_a_driver_that_is_fenced_tells_nothing_of_the_run_that_another_took_up(
    client, store, address
):
    fenced = threading.Event()

    def until_fenced(call):
        assert fenced.wait(60)
        message = "another driver has it"
        raise Fenced(message)

    first = client(FakeEngine(until_fenced, epoch=1))
    lost = first.start(metadata_store=address, checkpoint_dir="/cp")
    first.until(lost, S.RUNNING)
    jobs = client(FakeEngine(until_drained, epoch=2))
    job = jobs.start(metadata_store=address, checkpoint_dir="/cp", resume=True)
    jobs.until(job, S.RUNNING)
    fenced.set()
    assert first.path(lost)[-1] == "FAILED"
    assert [(run.run_id, run.job_id, run.state) for run in runs.known(store)] == [
        (lost, job, "RUNNING")
    ]
    runs.request(store, "wc", 1)
    assert jobs.path(job)[-1] == "DRAINED"


@pytest.mark.parametrize("asks", ["by the service", "by the store"])
def test_a_request_for_a_job_that_is_refused_does_not_drain_the_running_one(
    client, store, address, asks
):
    """The refused job would have taken up the run; a request for it waits until it has."""
    jobs = client(FakeEngine(until_drained, epoch=1))
    living = jobs.start(metadata_store=address, checkpoint_dir="/cp", drain_poll_ms="1")
    jobs.until(living, S.RUNNING)
    before = written(store)

    engine = Refusing()
    others = client(engine)
    refused = others.start(metadata_store=address, checkpoint_dir="/cp", resume=True)
    if asks == "by the store":
        with pytest.raises(runs.NoSuchRun):
            runs.request(store, refused, 1)
        engine.may_refuse.set()
    else:
        answers = []
        asking = threading.Thread(target=lambda: answers.append(others.drain(refused)))
        asking.start()
        asking.join(0.2)
        assert (asking.is_alive(), written(store)) == (True, before)
        engine.may_refuse.set()
        asking.join(60)
        assert answers == ["FAILED"]
    assert others.path(refused)[-1] == "FAILED"
    assert written(store) == before
    assert jobs.stub.GetState(api.GetJobStateRequest(job_id=living)).state == S.RUNNING
    jobs.drain(living)
    assert jobs.path(living)[-1] == "DRAINED"


def test_a_run_id_that_is_taken_over_without_a_lease_is_warned_of(client, store, address):
    former = client(FakeEngine(until_drained))
    first = former.start(metadata_store=address, run_id="mine")
    former.until(first, S.RUNNING)
    stopping = Stopping()  # the run's end removes the request, which the first job must read
    jobs = client(FakeEngine(stopping))
    second = jobs.start(metadata_store=address, run_id="mine")
    jobs.until(second, S.RUNNING)
    runs.request(store, "mine", 1)
    assert former.path(first)[-1] == "DRAINED"
    stopping.may_end.set()
    assert jobs.path(second)[-1] == "DRAINED"
    assert f"knows the run 'mine' of the job {first} as RUNNING" in jobs.texts(second)
    assert runs.find(store, "mine").job_id == second


def test_a_job_that_takes_its_checkpoints_anew_tells_its_new_epoch(client, store, address):
    def behave(call):
        call.observer.began(4)
        assert runs.find(store, "wc").epoch == 4
        outcome = until_drained(call)
        call.observer.began(5)
        run = runs.find(store, "wc")
        assert (run.epoch, run.state) == (5, "DRAINING")
        return outcome

    jobs = client(FakeEngine(behave, epoch=3))
    job = jobs.start(metadata_store=address, checkpoint_dir="/cp")
    jobs.until(job, S.RUNNING)
    jobs.drain(job)
    assert jobs.path(job)[-1] == "DRAINED"


def test_moves_of_slots_are_told_to_the_user_and_to_the_store(client, store, address):
    def behave(call):
        call.observer.moved("Moved: slot 0 to executor 3 on b.")
        call.observer.began(5)
        return until_drained(call)

    jobs = client(FakeEngine(behave, epoch=3))
    job = jobs.start(metadata_store=address, checkpoint_dir="/cp")
    jobs.drain(job)
    assert jobs.path(job)[-1] == "DRAINED"
    (line,) = runs.find(store, job).moves
    assert line.endswith("UTC Moved: slot 0 to executor 3 on b.")
    assert "Moved: slot 0 to executor 3 on b." in jobs.texts(job)


# --- stores that are not there --------------------------------------------------------------------


@pytest.mark.parametrize("behave", [lambda call: None, until_drained, lambda call: 1 / 0])
def test_a_job_that_is_over_has_no_thread_and_no_open_store(client, monkeypatch, behave):
    closed, original = [], STORES.open

    def opened(address):
        store = original(address)
        close = store.close
        monkeypatch.setattr(store, "close", lambda: (close(), closed.append(store)))
        return store

    monkeypatch.setattr(STORES, "open", opened)
    of_others = set(threading.enumerate())  # other tests kill drivers that are threads
    jobs = client(FakeEngine(behave))
    job = jobs.start(drain_limit_ms="3600000", drain_poll_ms="60000")
    if behave is until_drained:
        jobs.until(job, S.RUNNING)
        jobs.drain(job)
    jobs.path(job)
    assert len(closed) == 1
    own = set(threading.enumerate()) - of_others
    assert [each for each in own if each.name == "sparkdrain-drain-monitor"] == []


def test_a_store_that_cannot_be_opened_keeps_the_job_from_starting(client, tmp_path):
    (tmp_path / "file").write_text("")
    jobs = client(FakeEngine())
    job = jobs.prepare(metadata_store=f"file:{tmp_path}/file/store")
    code, details, _ = error_of(lambda: jobs.run(job))
    assert code == grpc.StatusCode.FAILED_PRECONDITION
    assert f"{tmp_path}/file/store" in details


class Breakable:
    """Stores that do not answer while ``down``."""

    down = False

    def __init__(self, monkeypatch) -> None:
        original = STORES.open

        def opened(address):
            store = original(address)
            for method in ("put", "get", "all", "remove"):
                monkeypatch.setattr(store, method, self.guarded(getattr(store, method)))
            return store

        monkeypatch.setattr(STORES, "open", opened)

    def guarded(self, method):
        def call(*arguments):
            if self.down:
                message = "the store does not answer"
                raise StoreDown(message)
            return method(*arguments)

        return call


def test_a_request_that_cannot_be_written_down_is_refused_and_has_no_effect(client, monkeypatch):
    stores = Breakable(monkeypatch)
    engine = FakeEngine(until_drained)
    jobs = client(engine)
    job = jobs.start()
    jobs.until(job, S.RUNNING)
    stores.down = True
    code, details, kind = error_of(lambda: jobs.drain(job))
    assert (code, kind) == (grpc.StatusCode.UNAVAILABLE, "StoreDown")
    assert "does not answer" in details
    assert engine.calls[0].drain.requested() is None
    stores.down = False
    jobs.drain(job)
    assert jobs.path(job)[-1] == "DRAINED"


def test_a_store_that_is_down_at_the_end_does_not_fail_a_job_that_was_drained(client, monkeypatch):
    stores = Breakable(monkeypatch)
    behave = Stopping()
    jobs = client(FakeEngine(behave))
    job = jobs.start()
    jobs.until(job, S.RUNNING)
    jobs.drain(job)
    stores.down = True
    behave.may_end.set()
    assert jobs.path(job)[-1] == "DRAINED"
    assert "the driver has not removed from it what asked for the drain" in jobs.texts(job)


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "end"), [("fail", "FAILED"), ("cancel", "CANCELLED")])
def test_a_drain_that_takes_too_long_ends_as_the_policy_says_and_the_request_stays(
    client, store, address, policy, end
):
    jobs = client(FakeEngine(Stopping()))
    job = jobs.start(
        metadata_store=address, run_id="mine", drain_limit_ms="20", drain_limit_policy=policy
    )
    jobs.until(job, S.RUNNING)
    jobs.drain(job)
    assert jobs.path(job)[-1] == end
    told = [m for m in jobs.messages(job) if "--drain_limit_ms allows 0.02 s" in m.message_text]
    assert len(told) == 1
    assert failure_kind(told[0]) == ("DrainLimitExceeded" if policy == "fail" else None)
    assert len(records.read(store, pytest.fail)) == 1


def test_the_limit_goes_on_to_count_when_a_run_is_taken_up_again(client, store, address):
    """The driver that heard of the request an hour ago was killed."""
    asked = DrainNotification.create("mine", 1)
    records.write(store, asked)
    records.first_heard(store, asked, time.time_ns() // 1000 - 3600 * 10**6)
    jobs = client(FakeEngine(Stopping()))
    job = jobs.start(metadata_store=address, run_id="mine", drain_limit_ms="3000000")
    assert jobs.path(job)[-1] == "FAILED"
    assert "has been draining for 36" in jobs.texts(job)


def test_with_the_policy_to_wait_a_drain_is_told_of_and_goes_on(client):
    behave = Stopping()
    jobs = client(FakeEngine(behave))
    job = jobs.start(drain_limit_ms="1", drain_limit_policy="wait")
    jobs.until(job, S.RUNNING)
    jobs.drain(job)
    stream = jobs.stub.GetMessageStream(api.JobMessagesRequest(job_id=job))
    told = (r.message_response.message_text for r in stream)
    assert next(text for text in told if "--drain_limit_ms allows 0.001 s" in text)
    assert next(text for text in told if "--drain_limit_ms allows 0.001 s" in text)
    behave.may_end.set()
    assert jobs.path(job)[-1] == "DRAINED"


@pytest.mark.parametrize(("policy", "end"), [("fail", "FAILED"), ("cancel", "CANCELLED")])
def test_what_a_slot_does_too_long_ends_the_job_as_the_policy_says(client, policy, end):
    def behave(call):
        until_drained(call)
        message = "slot 1 of 'Slow' has worked for too long [while running 'Slow']"
        raise DrainLimitExceeded(message)

    jobs = client(FakeEngine(behave))
    job = jobs.start(drain_limit_policy=policy)
    jobs.until(job, S.RUNNING)
    jobs.drain(job)
    assert jobs.path(job)[-1] == end
    assert "slot 1 of 'Slow' has worked for too long" in jobs.texts(job)


def test_a_limit_of_the_drain_does_not_touch_a_job_that_is_not_drained(client):
    def behave(call) -> None:
        time.sleep(0.05)  # fifty times the limit

    jobs = client(FakeEngine(behave))
    assert jobs.path(jobs.start(drain_limit_ms="1"))[-1] == "DONE"


# --- what can be seen -----------------------------------------------------------------------------


def test_the_phase_of_a_drain_is_in_the_store_and_with_the_service(client, store, address):
    told, goes_on = threading.Event(), threading.Event()

    def behave(call) -> Outcome:
        until_drained(call)
        progress = began("mine", 0)
        for phase in (DrainPhase.CUT, DrainPhase.TRUNCATED):
            progress = replace(progress, phase=phase)
            call.observer.draining(progress)
        told.set()
        assert goes_on.wait(60)
        call.observer.draining(replace(progress, phase=DrainPhase.DRAINED))
        return Outcome(drained=True)

    jobs = client(FakeEngine(behave))
    job = jobs.start(metadata_store=address, run_id="mine")
    jobs.drain(job)
    assert told.wait(60)
    (run,) = runs.known(store)
    assert (run.state, run.phase) == ("DRAINING", "TRUNCATED")
    metrics = jobs.stub.GetJobMetrics(api.GetJobMetricsRequest(job_id=job)).metrics
    assert drain_progress.phase_in(metrics.attempted) is DrainPhase.TRUNCATED
    goes_on.set()
    jobs.path(job)
    (run,) = runs.known(store)
    assert (run.state, run.phase) == ("DRAINED", "DRAINED")
    drains = [m.message_text for m in jobs.messages(job) if m.message_text.startswith("Drain: ")]
    assert drains == ["Drain: CUT.", "Drain: TRUNCATED.", "Drain: DRAINED."]


def test_how_far_a_drain_has_come_is_told_once_per_change_and_is_in_the_metrics(client, capsys):
    start = began("mine", 0)
    first = advanced(start, 1_000_000, [Left("Read", 1, 1), Left("Group", 2, 1, windows=9)], [])
    same = advanced(first, 1_100_000, [Left("Read", 1, 1), Left("Group", 2, 1, windows=8)], [])
    hold = [Hold("Group", "windows", 3)]
    last = advanced(same, 1_200_000, [Left("Read", 1, 1), Left("Group", 2, 2)], hold)

    def behave(call) -> Outcome:
        until_drained(call)
        for progress in (first, same, last):
            call.observer.draining(progress)
        return Outcome(drained=True)

    jobs = client(FakeEngine(behave))
    job = jobs.start()
    jobs.drain(job)
    jobs.path(job)
    told = [m.message_text for m in jobs.messages(job) if m.message_text.startswith("Drain: ")]
    assert told == [
        "Drain: 1 of 2 stages are drained; 9 windows left.\n"
        "  Group: 1 of 2 inputs drained, 9 windows left",
        "Drain: 2 of 2 stages are drained; nothing left inside; after 1.2 s; "
        "held by windows of 'Group' for 0 s.",
    ]
    assert capsys.readouterr().err.count("\n  Group: 1 of 2 inputs drained, 9 windows left") == 1
    response, _ = jobs.metrics(job)
    found = counters(response)
    assert found["inputs", "Group"] == found["inputs_drained", "Group"] == 2
    assert found["windows_left", "Group"] == 0


def test_a_dry_run_answers_what_is_inside_and_drains_nothing(client):
    progress = advanced(began("mine", 0), 1, [Left("Group", 2, 0, windows=9, timers=1200)], [])

    def behave(call) -> Outcome:
        call.drain.inquiry.on_ask(
            lambda: call.drain.inquiry.answer(call.drain.inquiry.wanted(), progress)
        )
        return until_drained(call)

    engine = FakeEngine(behave)
    jobs = client(engine)
    job = jobs.start()
    jobs.until(job, S.RUNNING)
    while not engine.calls:
        time.sleep(0.001)
    response, call = jobs.metrics(job, (DRY_RUN_KEY, "1"))
    trailing = dict(call.trailing_metadata())
    assert trailing[DRY_RUN_KEY] == "A drain would find 9 windows, 1,200 timers inside."
    assert counters(response)["windows_left", "Group"] == 9
    assert jobs.stub.GetState(api.GetJobStateRequest(job_id=job)).state == S.RUNNING
    assert engine.calls[0].drain.requested() is None
    jobs.drain(job)
    jobs.path(job)


def test_unreadable_notifications_are_counted(client, store, address):
    store.put(records.NAMESPACE, "junk", b"junk")
    jobs = client(FakeEngine(until_drained))
    job = jobs.start(metadata_store=address)
    jobs.until(job, S.RUNNING)
    assert counters(jobs.metrics(job)[0])["unreadable_notifications", ""] == 1
    runs.request(store, job, 1)
    assert jobs.path(job)[-1] == "DRAINED"


def test_a_store_that_other_users_may_write_is_warned_of(client, tmp_path):
    place = tmp_path / "rash"
    place.mkdir()
    store = f"file:{place}"
    jobs = client(FakeEngine())
    assert "may write" not in jobs.texts(jobs.start(metadata_store=store))
    place.chmod(0o777)
    warned = jobs.texts(jobs.start(metadata_store=store))
    assert f"Other users may write {place} (mode 0777), so they can drain the job" in warned


def test_a_store_on_a_share_with_old_looks_is_warned_of(client, tmp_path, monkeypatch):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"40 27 0:50 / {tmp_path} rw - nfs4 server:/export rw,vers=4.2\n")
    monkeypatch.setattr(nfs, "MOUNTINFO", mounts)
    jobs = client(FakeEngine())
    warned = jobs.texts(jobs.start(metadata_store=f"file:{tmp_path / 'store'}"))
    assert f"--metadata_store is on NFS: server:/export, mounted at {tmp_path}" in warned
