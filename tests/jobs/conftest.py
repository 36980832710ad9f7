from __future__ import annotations

import grpc
import pytest
from apache_beam.portability.api import beam_job_api_pb2_grpc

from tests.support.store_on_disk import address, store

__all__ = ["address", "connect", "store"]


@pytest.fixture
def connect(serve):
    """A client of a job server around an engine."""
    channels = []

    def client(engine, address: str = "") -> beam_job_api_pb2_grpc.JobServiceStub:
        channel = grpc.insecure_channel(serve(engine, address).endpoint)
        channels.append(channel)
        return beam_job_api_pb2_grpc.JobServiceStub(channel)

    yield client
    for channel in channels:
        channel.close()
