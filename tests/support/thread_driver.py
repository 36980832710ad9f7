"""Drivers of a server for tests: each a Job service in this process, around a fake engine."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import grpc
from apache_beam.portability.api import beam_job_api_pb2_grpc

from sparkdrain.errors import DriverLost
from sparkdrain.jobs.server import JobServer
from sparkdrain.server.driver import Driver
from sparkdrain.server.handover import TakenOver

if TYPE_CHECKING:
    from sparkdrain.server.session import Session


class ThreadDriver(Driver):
    """Answers as a driver process does, until it is killed or ended."""

    pid = 4711
    is_ready = True

    def __init__(self, engine, session: Session, *, warm: bool) -> None:
        self.session, self.warm = session, warm
        self.is_ended = False
        taken_over = TakenOver()
        self._server = JobServer(engine, staged=taken_over, job_id_for=taken_over.job_id_for)
        self._channel = grpc.insecure_channel(self._server.start())
        self._killed = threading.Event()

    @property
    def is_alive(self) -> bool:
        return not self._killed.is_set()

    def service(self):
        if not self.is_alive:
            raise self.lost()
        return beam_job_api_pb2_grpc.JobServiceStub(self._channel)

    def lost(self) -> DriverLost:
        return DriverLost("The job's driver process 4711 was ended by the signal SIGKILL.")

    def kill(self) -> None:
        """As SIGKILL does: calls break off, and the job ends without a word."""
        server = self._server
        if self.is_alive and server is not None:
            self._killed.set()
            server._server.stop(None)

    def end(self) -> None:
        self.is_ended = True
        self._killed.set()
        server, self._server = self._server, None
        if server is not None:
            with contextlib.suppress(Exception):
                server.stop()
        self._channel.close()


class ThreadDrivers:
    """Starts them; remembers all."""

    def __init__(self, engine) -> None:
        self.engine = engine
        self.started: list[ThreadDriver] = []

    def __call__(self, session: Session, *, warm: bool) -> ThreadDriver:
        driver = ThreadDriver(self.engine, session, warm=warm)
        self.started.append(driver)
        return driver
