"""Jobs of a server with drivers in this process: side by side, in turn, and each for itself."""

from __future__ import annotations

import sys
import threading

import apache_beam as beam
import grpc
import pytest
from apache_beam.metrics import monitoring_infos
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_job_api_pb2 as api
from fake_engine import FakeEngine, until_cancelled, until_drained

from sparkdrain.errors import BadSetup, DriverLost, UserCodeError
from sparkdrain.invocation import Outcome
from sparkdrain.jobs.calls import DRY_RUN_KEY
from sparkdrain.server.driver import DriverProcess
from sparkdrain.server.server import StandingServer
from sparkdrain.server.session import Session
from sparkdrain.server.settings import ServerSettings
from tests.support.thread_driver import ThreadDriver
from tests.support.waiting import wait_until


def fails(call) -> None:
    message = "ValueError: 7 [while running 'Map']"
    raise UserCodeError(message)


def by_name(**behaviors) -> FakeEngine:
    return FakeEngine(lambda call: behaviors[call.job_name](call))


def test_a_job_runs_in_a_driver_and_all_that_it_tells_comes_through(at_server):
    attempted = monitoring_infos.int64_user_counter("ns", "n", 5)
    committed = monitoring_infos.int64_user_counter("ns", "n", 3)

    def behave(call) -> Outcome:
        call.observer.message(3, f"I am {call.job_id}")
        return Outcome([attempted], [committed])

    client = at_server(FakeEngine(behave))
    job_id = client.run("wc", my_own="x")
    assert client.path(job_id) == ["STOPPED", "STARTING", "RUNNING", "DONE"]
    assert f"I am {job_id}" in client.messages(job_id)
    metrics = client.stub.GetJobMetrics(api.GetJobMetricsRequest(job_id=job_id)).metrics
    assert list(metrics.attempted) == [attempted]
    assert list(metrics.committed) == [committed]
    (driver,) = client.drivers.started
    wait_until(lambda: driver.is_ended)


def test_a_job_that_fails_says_why_as_in_process_and_others_go_on(at_server):
    client = at_server(by_name(good=until_cancelled, bad=fails))
    good, bad = client.run("good"), client.run("bad")
    assert client.path(bad)[-1] == "FAILED"
    stream = client.stub.GetMessageStream(api.JobMessagesRequest(job_id=bad))
    told = [m.message_response for m in stream if m.message_response.message_text]
    assert told[-1].message_id.endswith("failure-UserCodeError")
    assert told[-1].message_text.startswith("ValueError: 7 [while running 'Map']")
    client.until_state(good, "RUNNING")
    client.cancel(good)
    assert client.path(good)[-2:] == ["CANCELLING", "CANCELLED"]


def test_what_a_job_has_attempted_is_told_though_it_failed(at_server):
    attempted = monitoring_infos.int64_user_counter("ns", "n", 5)

    def behave(call) -> None:
        call.observer.counting(lambda: [attempted])
        fails(call)

    client = at_server(FakeEngine(behave))
    job_id = client.run()
    assert client.path(job_id)[-1] == "FAILED"
    metrics = client.stub.GetJobMetrics(api.GetJobMetricsRequest(job_id=job_id)).metrics
    assert list(metrics.attempted) == [attempted]
    assert not metrics.committed


def test_a_driver_that_is_killed_fails_its_own_job_with_the_reason(at_server):
    client = at_server(by_name(mine=until_cancelled, other=until_cancelled))
    mine = client.run("mine")
    client.until_state(mine, "RUNNING")
    other = client.run("other")
    client.until_state(other, "RUNNING")
    client.drivers.started[0].kill()
    assert client.path(mine)[-1] == "FAILED"
    text = client.messages(mine)[-1]
    assert "was ended by the signal SIGKILL" in text
    assert "the job service and its other jobs go on" in text
    assert client.state(other) == "RUNNING"
    client.cancel(other)


def test_only_so_many_jobs_run_and_the_others_wait_visibly_in_their_order(at_server):
    began: list[str] = []

    def behave(call):
        began.append(call.job_name)
        return until_drained(call)

    client = at_server(FakeEngine(behave), max_jobs=1)
    first = client.run("first")
    client.until_state(first, "RUNNING")
    second, third = client.run("second"), None
    assert "1 run, as many as --max-jobs allows, and 0 wait" in client.until_message(
        second, "The job waits"
    )
    third = client.run("third")
    assert "and 1 wait before it" in client.until_message(third, "The job waits")
    assert client.state(second) == "STARTING"
    assert began == ["first"]
    for job_id in (first, second, third):
        client.until_state(job_id, "RUNNING")
        client.drain(job_id)
        assert client.path(job_id)[-1] == "DRAINED"
    assert began == ["first", "second", "third"]


def test_a_job_that_waits_can_be_cancelled_and_never_starts(at_server):
    client = at_server(by_name(first=until_cancelled, second=fails), max_jobs=1)
    first = client.run("first")
    client.until_state(first, "RUNNING")
    second = client.run("second")
    client.until_message(second, "The job waits")
    assert client.cancel(second) in {"CANCELLING", "CANCELLED"}
    assert client.path(second) == ["STOPPED", "STARTING", "CANCELLING", "CANCELLED"]
    assert client.state(first) == "RUNNING"
    assert len(client.drivers.started) == 1


def test_a_job_that_waits_can_be_drained_and_reads_nothing_when_its_turn_comes(at_server):
    client = at_server(by_name(first=until_drained, second=until_drained), max_jobs=1)
    first = client.run("first")
    client.until_state(first, "RUNNING")
    second = client.run("second")
    client.until_message(second, "The job waits")
    assert client.drain(second) == "DRAINING"
    assert client.drain(first) in {"DRAINING", "DRAINED"}
    assert client.path(second) == ["STOPPED", "STARTING", "DRAINING", "DRAINED"]


def test_a_raw_client_drains_a_running_job(at_server):
    client = at_server(FakeEngine(until_drained))
    job_id = client.run("stream")
    client.until_state(job_id, "RUNNING")
    assert client.drain(job_id) in {"DRAINING", "DRAINED"}
    assert client.path(job_id) == ["STOPPED", "STARTING", "RUNNING", "DRAINING", "DRAINED"]
    assert client.drain(job_id) == "DRAINED"


class BrokenOff(grpc.RpcError):
    """What a caller sees whose channel is closed while it waits."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.CANCELLED


class Hasty:
    """The service of a driver that ends before its answer to a request to drain is there."""

    def __init__(self, driver, service, error) -> None:
        self._driver, self._service, self._error = driver, service, error

    def __getattr__(self, name):
        return getattr(self._service, name)

    def Drain(self, request):
        self._service.Drain(request)
        wait_until(lambda: self._driver.is_ended)
        raise self._error


@pytest.mark.parametrize("error", [BrokenOff(), ValueError("the channel is closed")])
def test_a_job_that_is_over_before_its_driver_has_answered_is_drained(
    at_server, monkeypatch, error
):
    service = ThreadDriver.service
    monkeypatch.setattr(ThreadDriver, "service", lambda self: Hasty(self, service(self), error))
    client = at_server(FakeEngine(until_drained))
    job_id = client.run("stream")
    client.until_state(job_id, "RUNNING")
    assert client.drain(job_id) == "DRAINED"


def test_a_job_with_drain_off_says_so(at_server):
    client = at_server(FakeEngine(until_cancelled))
    job_id = client.run("stream", drain="off")
    client.until_state(job_id, "RUNNING")
    with pytest.raises(grpc.RpcError, match="--drain=off") as caught:
        client.drain(job_id)
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION


def test_a_name_in_use_is_refused_until_its_job_has_ended(at_server):
    client = at_server(FakeEngine(until_cancelled))
    first = client.run("mine")
    prepared_ahead = None
    with pytest.raises(grpc.RpcError, match=first) as caught:
        prepared_ahead = client.prepare("mine")
    assert prepared_ahead is None
    assert caught.value.code() is grpc.StatusCode.ALREADY_EXISTS
    client.cancel(first)
    assert client.path(first)[-1] == "CANCELLED"
    second = client.run("mine")
    client.cancel(second)


def test_of_two_prepared_jobs_of_one_name_the_second_cannot_run(at_server):
    client = at_server(FakeEngine(until_cancelled))
    first, second = client.prepare("mine"), client.prepare("mine")
    client.stub.Run(api.RunJobRequest(preparation_id=first))
    with pytest.raises(grpc.RpcError) as caught:
        client.stub.Run(api.RunJobRequest(preparation_id=second))
    assert caught.value.code() is grpc.StatusCode.ALREADY_EXISTS
    client.cancel(first)


def test_jobs_without_a_name_of_their_own_run_side_by_side(at_server):
    # Beam's Python client calls every job "job".
    client = at_server(FakeEngine(until_cancelled))
    for job_id in [client.run("job"), client.run("job")]:
        client.until_state(job_id, "RUNNING")
        client.cancel(job_id)


def test_a_job_outlives_the_client_that_submitted_it(at_server):
    client = at_server(FakeEngine(until_drained))
    with grpc.insecure_channel(client.server.endpoint) as channel:
        other = type(client)(channel)
        job_id = other.run("stream")
        other.until_state(job_id, "RUNNING")
        stream = other.stub.GetMessageStream(api.JobMessagesRequest(job_id=job_id))
        next(stream)
    assert client.state(job_id) == "RUNNING"
    client.drain(job_id)
    assert client.path(job_id)[-1] == "DRAINED"


def test_the_next_job_gets_the_driver_that_waits_with_its_session_ready(at_server):
    client = at_server(is_warm=True)
    (spare,) = client.drivers.started
    assert spare.warm
    job_id = client.run("a")
    client.until_message(job_id, "The job runs in the driver process 4711, which was ready.")
    wait_until(lambda: spare.is_ended)
    wait_until(lambda: len(client.drivers.started) == 2)
    assert client.drivers.started[1].warm, "the next spare"


def test_a_job_of_another_session_gets_a_driver_of_its_own_and_is_told_why(at_server):
    client = at_server(is_warm=True)
    job_id = client.run("a", spark_master_url="local[3]")
    assert client.path(job_id)[-1] == "DONE"
    assert "the driver that waited has another --spark_master_url" in "".join(
        client.messages(job_id)
    )
    sessions = [(each.session.spark_master_url, each.warm) for each in client.drivers.started]
    assert sessions[:2] == [("local[*]", True), ("local[3]", False)]
    wait_until(lambda: client.drivers.started[0].is_ended)
    wait_until(lambda: len(client.drivers.started) == 3)
    assert client.drivers.started[2].session.spark_master_url == "local[3]", "as the newest job"


def test_a_spare_driver_that_dies_is_replaced_and_the_next_job_has_the_new_one(at_server):
    client = at_server(is_warm=True)
    client.drivers.started[0].kill()
    wait_until(lambda: len(client.drivers.started) == 2)
    job_id = client.run("a")
    client.until_message(job_id, "The job runs in the driver process 4711, which was ready.")
    assert client.path(job_id)[-1] == "DONE"


def test_the_spare_driver_is_no_job_and_ends_with_the_server(at_server):
    client = at_server(FakeEngine(until_cancelled), is_warm=True, max_jobs=1)
    first = client.run("first")
    client.until_message(first, "The job runs in the driver process 4711, which was ready.")
    client.server._drivers.hurry()
    assert len(client.drivers.started) == 2
    second = client.run("second")
    client.until_message(second, "The job waits: 1 run")
    client.cancel(first)
    client.until_message(second, "The job runs in the driver process 4711, which was ready.")
    client.cancel(second)
    client.path(second)
    client.server.stop()
    client.server.stop = lambda: None
    assert all(each.is_ended for each in client.drivers.started)


@pytest.mark.parametrize("option", ["job_port", "artifact_port", "expansion_port"])
def test_a_port_in_use_is_named_with_the_option(at_server, option):
    port = int(at_server().server.endpoint.rpartition(":")[2])
    settings = ServerSettings(**{"job_port": 0, "is_warm": False, option: port})
    second = StandingServer(settings, FakeEngine())
    flag = f"--{option.replace('_', '-')}"
    with pytest.raises(BadSetup, match=rf":{port}: the port is in use.*another {flag} or"):
        second.start()
    second.stop()


def test_a_program_can_run_twice_at_once_and_its_checkpoints_keep_their_name(at_server):
    client = at_server(FakeEngine(until_cancelled))

    def submit(*more: str):
        options = ["--runner=SparkDrainRunner", f"--job_endpoint={client.server.endpoint}", *more]
        pipeline = beam.Pipeline(options=PipelineOptions(options))
        pipeline | beam.Create([1])
        return pipeline.run()

    jobs = [submit(), submit()]
    names = {info.job_name for info in client.jobs()}
    assert len(names) == 2
    for job in jobs:
        job.cancel()
    submit("--job_name=mine").cancel()
    assert client.server._jobs.all()[-1].info.job_name == "mine"


def test_what_a_drain_would_find_is_asked_of_the_driver(at_server):
    def behave(call):
        call.drain.inquiry.decline("Nothing to cut here.")
        return until_drained(call)

    client = at_server(FakeEngine(behave))
    job_id = client.run("stream")
    client.until_state(job_id, "RUNNING")
    wait_until(lambda: client.drivers.engine.calls)
    request = api.GetJobMetricsRequest(job_id=job_id)

    def answer() -> str:
        _, call = client.stub.GetJobMetrics.with_call(request, metadata=((DRY_RUN_KEY, "1"),))
        return dict(call.trailing_metadata())[DRY_RUN_KEY]

    wait_until(lambda: answer() == "Nothing to cut here.")
    assert client.state(job_id) == "RUNNING"
    client.drain(job_id)
    client.path(job_id)
    assert answer() == "The job has ended, so there is nothing inside."


def test_a_driver_that_does_not_heed_a_cancellation_is_killed(at_server, monkeypatch):
    monkeypatch.setattr("sparkdrain.server.driven_job._CANCEL_SECONDS", 0.1)
    deaf = threading.Event()
    client = at_server(FakeEngine(lambda call: deaf.wait(60) and None))
    job_id = client.run()
    client.until_state(job_id, "RUNNING")
    client.cancel(job_id)
    assert client.path(job_id)[-2:] == ["CANCELLING", "CANCELLED"]
    assert not client.drivers.started[0].is_alive
    deaf.set()


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "signal SIGKILL. Linux does"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "signal SIGSEGV. A library"),
        ("raise SystemExit('no room')", "ended with the exit code 1."),
    ],
)
def test_a_driver_that_never_starts_says_how_it_ended(code, told):
    driver = DriverProcess(
        Session("local[1]"), "", warm=False, program=[sys.executable, "-c", code]
    )
    with pytest.raises(DriverLost) as caught:
        driver.service()
    assert told in str(caught.value)
    if "no room" in code:
        wait_until(lambda: "no room" in str(driver.lost()))
    driver.end()
    assert not driver.is_alive
