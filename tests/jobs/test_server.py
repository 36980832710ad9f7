from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path

import grpc
import pytest
from apache_beam.portability.api import beam_job_api_pb2 as api
from apache_beam.portability.api import beam_job_api_pb2_grpc
from fake_engine import FakeEngine, until_cancelled

from sparkdrain.errors import BadSetup
from sparkdrain.jobs.server import JobServer
from sparkdrain.jobs.service import JobService


def directory(server: JobServer) -> Path:
    return Path(server.endpoint.removeprefix("unix:")).parent


def test_by_default_only_the_same_user_can_reach_the_service(serve):
    server = serve(FakeEngine())
    assert server.endpoint.startswith("unix:/")
    mode = stat.S_IMODE(os.stat(directory(server)).st_mode)
    assert mode == 0o700


def test_a_service_on_tcp_says_which_port_it_got(serve, connect):
    endpoint = serve(FakeEngine(), "localhost:0").endpoint
    host, port = endpoint.split(":")
    assert host == "localhost"
    assert int(port) > 0


def test_an_address_that_is_taken_is_named(serve):
    taken = serve(FakeEngine(), "localhost:0").endpoint
    second = JobServer(FakeEngine(), taken)
    try:
        with pytest.raises(BadSetup, match=taken):
            second.start()
    finally:
        second.stop()


def test_a_long_path_for_temporary_files_does_not_keep_the_service_from_starting(
    connect, tmp_path, monkeypatch
):
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    client = connect(FakeEngine())
    assert not client.GetJobs(api.GetJobsRequest()).job_info
    assert list(deep.iterdir())


def test_stopping_cancels_running_jobs_and_leaves_no_files(serve):
    running, stopped = threading.Event(), threading.Event()

    def behave(call) -> None:
        running.set()
        try:
            until_cancelled(call)
        finally:
            stopped.set()

    server = serve(FakeEngine(behave))
    home = directory(server)
    with grpc.insecure_channel(server.endpoint) as channel:
        client = beam_job_api_pb2_grpc.JobServiceStub(channel)
        job_id = client.Prepare(api.PrepareJobRequest(job_name="wc")).preparation_id
        client.Run(api.RunJobRequest(preparation_id=job_id))
        assert running.wait(30)
    server.stop()
    assert stopped.is_set()
    assert not home.exists()


def no_thread(*_: object) -> None:
    """As Python refuses it from 3.12 on."""
    message = "can't create new thread at interpreter shutdown"
    raise RuntimeError(message)


@pytest.mark.parametrize("ends", [False, True], ids=["", "while the interpreter ends"])
def test_a_call_gets_its_answer_although_the_server_stops(serve, monkeypatch, ends):
    asked = threading.Event()
    answer = JobService.DescribePipelineOptions

    def slowly(service, request, context):
        asked.set()
        time.sleep(0.2)
        return answer(service, request, context)

    monkeypatch.setattr(JobService, "DescribePipelineOptions", slowly)
    server = serve(FakeEngine())
    with grpc.insecure_channel(server.endpoint) as channel:
        client = beam_job_api_pb2_grpc.JobServiceStub(channel)
        call = client.DescribePipelineOptions.future(api.DescribePipelineOptionsRequest())
        assert asked.wait(30)
        home = directory(server)
        with monkeypatch.context() as ending:
            if ends:
                ending.setattr(threading.Thread, "start", no_thread)
            server.stop()
        assert call.result(30).options
    assert not home.exists()
