from __future__ import annotations

import grpc
import pytest
from fake_engine import FakeEngine

from sparkdrain.server.server import StandingServer
from sparkdrain.server.settings import ServerSettings
from tests.support.job_client import JobClient
from tests.support.thread_driver import ThreadDrivers


@pytest.fixture
def at_server():
    """Starts servers whose drivers are threads of this process; a client of each."""
    servers, channels = [], []

    def start(engine=None, **settings) -> JobClient:
        engine = engine or FakeEngine()
        given = {"job_port": 0, "max_jobs": 4, "is_warm": False, **settings}
        server = StandingServer(ServerSettings(**given), engine, ThreadDrivers(engine))
        servers.append(server)
        channels.append(grpc.insecure_channel(server.start()))
        client = JobClient(channels[-1])
        client.server = server
        client.drivers = server._drivers._launch
        return client

    yield start
    for channel in channels:
        channel.close()
    for server in servers:
        server.stop()
