"""Slow: a server's jobs in a store on a network; the next server, on any machine, knows them."""

from __future__ import annotations

import os
import signal

import apache_beam as beam
import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_job_api_pb2 as api
from zookeeper_server import ZooKeeperServer

from tests.support.job_client import JobClient
from tests.support.server_process import server_process

# More than ZooKeeper takes in one request.
LARGE = 2_000_000
ANY_SIZE = [("grpc.max_receive_message_length", -1)]


def submit(endpoint: str) -> str:
    options = [
        "--runner=PortableRunner",
        f"--job_endpoint={endpoint}",
        "--spark_master_url=local[1]",
    ]
    pipeline = beam.Pipeline(options=PipelineOptions(options))
    pipeline | beam.Create([os.urandom(LARGE)]) | beam.Map(len)
    return pipeline.run()._job_id


@pytest.mark.slow
@pytest.mark.spark
def test_a_server_in_another_folder_knows_jobs_of_a_killed_one_from_zookeeper(tmp_path):
    with ZooKeeperServer() as zookeeper:
        store = f"--metadata-store=zookeeper:{zookeeper.address}/server"
        with server_process(store, "--warm=off", f"--server-dir={tmp_path / '1'}") as (
            process,
            endpoint,
        ):
            with grpc.insecure_channel(endpoint, options=ANY_SIZE) as channel:
                client = JobClient(channel)
                job_id = submit(endpoint)
                assert client.path(job_id)[-1] == "DONE", client.messages(job_id)
                known = client.path(job_id), client.messages(job_id)
                asked = api.GetJobPipelineRequest(job_id=job_id)
                pipeline = client.stub.GetPipeline(asked).pipeline
            process.send_signal(signal.SIGKILL)
            process.wait()
        with (
            server_process(store, "--warm=off", f"--server-dir={tmp_path / '2'}") as (_, again),
            grpc.insecure_channel(again, options=ANY_SIZE) as there,
        ):
            client = JobClient(there)
            assert (client.path(job_id), client.messages(job_id)) == known
            assert client.stub.GetPipeline(asked).pipeline == pipeline
            (info,) = client.jobs()
            assert info.job_id == job_id
