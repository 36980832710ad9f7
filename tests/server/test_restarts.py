"""What a server knows after a restart of itself, and what it does with each job."""

from __future__ import annotations

import pytest
from apache_beam.metrics import monitoring_infos
from apache_beam.portability.api import beam_job_api_pb2 as api
from apache_beam.portability.api import beam_runner_api_pb2
from fake_engine import FakeEngine, until_cancelled, until_drained

from sparkdrain.coordination.address import StoreAddress
from sparkdrain.coordination.metadata import StoreDown
from sparkdrain.errors import BadSetup
from sparkdrain.invocation import Outcome
from sparkdrain.server.driven_jobs import Fate, fate
from sparkdrain.v1.server_pb2 import StoredJob
from tests.support.waiting import wait_until

_S = api.JobState


@pytest.fixture(params=["rocksdb", "file"])
def where(request, tmp_path):
    """A directory and a store, which the next server has, too."""
    return {
        "directory": str(tmp_path / "server"),
        "store": StoreAddress(request.param, str(tmp_path / "store")),
    }


class Gone:
    """The store, for a server that has died."""

    def put(self, *row) -> None:
        message = "the server has died"
        raise StoreDown(message)


def die(client) -> None:
    """As SIGKILL does: nothing more is written, and drivers end."""
    server = client.server
    server._artifacts.forget = lambda token: None
    object.__setattr__(server._jobs._store, "store", Gone())
    server._lock.close()
    for driver in client.drivers.started:
        driver.kill()
    for each in server._servers:
        each.stop(None).wait()
    server._stopped.set()
    server._store.close()
    server.stop = lambda: None


def test_a_job_that_ended_is_known_with_all_that_can_be_asked(at_server, where):
    counter = monitoring_infos.int64_user_counter("ns", "n", 3)

    def behave(call):
        call.observer.message(3, "hello")
        return Outcome([counter], [counter])

    client = at_server(FakeEngine(behave), **where)
    big = beam_runner_api_pb2.Pipeline(requirements=["x" * 2_000_000])
    job_id = client.prepare("wc", big, my_own="x")
    client.stub.Run(api.RunJobRequest(preparation_id=job_id))
    before = client.path(job_id), client.messages(job_id)
    die(client)
    again = at_server(**where)
    assert (again.path(job_id), again.messages(job_id)) == before
    assert "hello" in before[1]
    assert again.state(job_id) == "DONE"
    asked = api.GetJobPipelineRequest(job_id=job_id)
    assert again.stub.GetPipeline(asked).pipeline == big
    metrics = again.stub.GetJobMetrics(api.GetJobMetricsRequest(job_id=job_id)).metrics
    assert list(metrics.committed) == list(metrics.attempted) == [counter]
    (info,) = again.jobs()
    assert (info.job_id, info.job_name, info.state) == (job_id, "wc", _S.DONE)
    assert info.pipeline_options["beam:option:my_own:v1"] == "x"
    assert again.cancel(job_id) == again.drain(job_id) == "DONE"


def test_a_batch_job_that_ran_when_the_server_died_has_failed_and_says_so(at_server, where):
    client = at_server(FakeEngine(until_cancelled), **where)
    job_id = client.run("batch")
    client.until_state(job_id, "RUNNING")
    die(client)
    again = at_server(**where)
    assert again.path(job_id)[-2:] == ["RUNNING", "FAILED"]
    assert again.messages(job_id)[-1].startswith("The job service ended while this job ran")
    assert again.drivers.started == []


def test_a_streaming_job_with_checkpoints_is_taken_up_again(at_server, where, tmp_path):
    client = at_server(FakeEngine(until_drained), **where)
    options = {"streaming": True, "checkpoint_dir": str(tmp_path / "checkpoints")}
    job_id = client.run("stream", **options)
    client.until_state(job_id, "RUNNING")
    assert not client.drivers.engine.calls[0].settings.resume
    die(client)
    engine = FakeEngine(until_drained)
    again = at_server(engine, **where)
    again.until_message(job_id, "The job service was restarted. The job goes on")
    wait_until(lambda: engine.calls)
    assert engine.calls[0].settings.resume is True
    assert engine.calls[0].job_id == job_id
    assert again.state(job_id) == "RUNNING"
    assert again.drain(job_id) in {"DRAINING", "DRAINED"}
    assert again.path(job_id)[-2:] == ["DRAINING", "DRAINED"]


def test_a_job_that_waited_waits_again_with_its_files(at_server, where):
    client = at_server(FakeEngine(until_cancelled), max_jobs=1, **where)
    first = client.run("first")
    client.until_state(first, "RUNNING")
    second = client.run("second")
    client.until_message(second, "The job waits")
    die(client)
    engine = FakeEngine()
    again = at_server(engine, max_jobs=1, **where)
    assert again.path(second)[-1] == "DONE"
    assert [call.job_id for call in engine.calls] == [second]
    assert again.state(first) == "FAILED"


def test_a_server_that_is_told_to_stop_leaves_streams_and_cancels_the_rest(
    at_server, where, tmp_path
):
    client = at_server(FakeEngine(until_drained), **where)
    options = {"streaming": True, "checkpoint_dir": str(tmp_path / "checkpoints")}
    stream, batch = client.run("stream", **options), client.run("batch")
    client.until_state(stream, "RUNNING")
    client.until_state(batch, "RUNNING")
    client.server.stop()
    client.server.stop = lambda: None
    assert all(driver.is_ended for driver in client.drivers.started)
    again = at_server(FakeEngine(until_drained), **where)
    assert again.state(stream) == "RUNNING"
    assert again.path(batch)[-2:] == ["CANCELLING", "CANCELLED"]
    again.cancel(stream)
    assert again.path(stream)[-1] == "CANCELLED"


def test_two_servers_cannot_have_one_directory(at_server, tmp_path):
    at_server(directory=str(tmp_path / "server"))
    with pytest.raises(BadSetup, match=r"Another server has .* --server-dir"):
        at_server(directory=str(tmp_path / "server"))


def test_files_of_a_job_that_never_ran_are_removed_at_the_next_start(at_server, where):
    client = at_server(**where)
    left = client.server._files / "job-x"
    die(client)
    left.mkdir(parents=True)
    (left / "half.part").write_text("x")
    at_server(**where)
    assert not left.exists()


def test_a_job_that_is_never_run_is_forgotten_after_an_hour(at_server):
    client = at_server()
    job_id = client.prepare()
    folder = client.server._files / job_id
    folder.mkdir(parents=True)
    jobs, clock = client.server._jobs, client.server._jobs._clock

    def later(seconds: int):
        then = clock()
        then.seconds += seconds
        return then

    jobs._clock = lambda: later(3590)
    jobs.tick()
    assert client.state(job_id) == "STOPPED"
    jobs._clock = lambda: later(3610)
    jobs.tick()
    with pytest.raises(Exception, match="There is no job"):
        client.state(job_id)
    assert not folder.exists()


def test_old_jobs_leave_nothing_in_the_store(at_server, monkeypatch, tmp_path):
    monkeypatch.setattr("sparkdrain.server.server._KEPT_JOBS", 2)
    client = at_server(directory=str(tmp_path / "server"))
    ids = []
    for _ in range(5):
        ids.append(client.run())
        client.path(ids[-1])
        wait_until(lambda: not client.server._jobs.get(ids[-1]).is_running)
    store = client.server._store
    wait_until(lambda: len(store.all("sparkdrain-server-jobs-v1")) <= 3)
    left = {key.partition("/")[0] for key in store.all("sparkdrain-server-parts-v1")}
    assert ids[0] not in left
    assert ids[-1] in left


@pytest.mark.parametrize(
    ("states", "was_driven", "has_checkpoints", "expected"),
    [
        ([_S.STOPPED, _S.STARTING, _S.RUNNING, _S.DONE], True, False, Fate.OVER),
        ([_S.STOPPED, _S.STARTING], False, True, Fate.WAITS),
        ([_S.STOPPED, _S.STARTING, _S.DRAINING], False, False, Fate.WAITS),
        ([_S.STOPPED, _S.STARTING], True, False, Fate.LOST),
        ([_S.STOPPED, _S.STARTING, _S.RUNNING], True, True, Fate.GOES_ON),
        ([_S.STOPPED, _S.STARTING, _S.RUNNING, _S.DRAINING], True, True, Fate.GOES_ON),
        ([_S.STOPPED, _S.STARTING, _S.RUNNING, _S.CANCELLING], True, True, Fate.CANCELLED),
    ],
)
def test_what_becomes_of_a_job_depends_on_where_it_was(
    states, was_driven, has_checkpoints, expected
):
    events = [api.JobStateEvent(state=state).SerializeToString() for state in states]
    head = StoredJob(states=events, was_driven=was_driven, has_checkpoints=has_checkpoints)
    assert fate(head) is expected
