"""A pool across a network is warned of by name: Beam's pools speak in clear."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from apache_beam.portability.api import beam_job_api_pb2
from apache_beam.portability.api import beam_runner_api_pb2 as api
from apache_beam.transforms import environments

from sparkdrain.graph.notices import open_pools
from sparkdrain.jobs.engine import SparkEngine
from sparkdrain.stages.batch import execute as batch

PROCESS = environments.ProcessEnvironment("sparkdrain worker")


def pool(address):
    return environments.ExternalEnvironment(address)


def pipeline_in(environment):
    pipeline = api.Pipeline()
    pipeline.components.environments["e"].CopyFrom(environment.to_runner_api(None))
    unused = pool("other:1").to_runner_api(None)
    pipeline.components.environments["unused"].CopyFrom(unused)
    pipeline.components.transforms["t"].environment_id = "e"
    return pipeline


@pytest.mark.parametrize("address", ["pools:50000", "10.0.0.7:1", "[2001:db8::1]:50000"])
def test_a_pool_across_a_network_is_warned_of_with_what_to_do(address):
    (text,) = open_pools(pipeline_in(pool(address)))
    assert text.startswith(f"The worker pool of the environment 'e' is at '{address}', across")
    assert "in clear" in text
    assert "--environment_type=PROCESS" in text


@pytest.mark.parametrize(
    "environment",
    [
        *map(pool, ["localhost:50000", "127.0.0.1:1", "[::1]:50000", "unix:/tmp/folder/pool"]),
        PROCESS,
        environments.EmbeddedPythonEnvironment(),
        environments.AnyOfEnvironment([pool("pools:1"), PROCESS]),
    ],
)
def test_what_stays_on_the_machine_of_the_executor_is_not_warned_of(environment):
    assert list(open_pools(pipeline_in(environment))) == []


def test_the_warning_is_among_the_messages_of_the_job(monkeypatch):
    told = []
    invocation = SimpleNamespace(
        pipeline=pipeline_in(pool("pools:50000")),
        settings=SimpleNamespace(streaming=False),
        observer=SimpleNamespace(message=lambda *message: told.append(message)),
    )
    monkeypatch.setattr(batch, "execute", lambda invocation: None)
    SparkEngine().execute(invocation)
    importance, text = told[-1]
    assert importance == beam_job_api_pb2.JobMessage.JOB_MESSAGE_WARNING
    assert "'pools:50000'" in text
