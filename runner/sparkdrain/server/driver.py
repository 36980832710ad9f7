"""A driver process, as the server has it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

import grpc
from apache_beam.portability.api import beam_job_api_pb2_grpc
from typing_extensions import override

from sparkdrain.errors import DriverLost
from sparkdrain.jobs.server import UNLIMITED
from sparkdrain.server.driver_main import READY, WARM

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apache_beam.portability.api.beam_job_api_pb2_grpc import JobServiceStub

    from sparkdrain.server.session import Session

_START_SECONDS: Final = 120.0
_END_SECONDS: Final = 30.0
_REASON_SECONDS: Final = 10.0
_LAST_LINES: Final = 30
_LONGEST_LINE: Final = 2000


class Driver(Protocol):
    """A process that runs one job behind Beam's Job API. Thread-safe."""

    @property
    def pid(self) -> int:
        """The id of the process."""

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""

    @property
    def is_ready(self) -> bool:
        """Whether a driver that was started warm has its session ready."""

    def service(self) -> JobServiceStub:
        """The Job service of the process; waits until the process has started.

        Raises:
            DriverLost: the process ended, or did not start in time; says why.
        """

    def lost(self) -> DriverLost:
        """Why the process does not answer."""

    def kill(self) -> None:
        """End the process now; does not wait."""

    def end(self) -> None:
        """Have the process end by itself, or kill it if that takes too long."""


class Launch(Protocol):
    """Starts drivers."""

    def __call__(self, session: Session, *, warm: bool) -> Driver:
        """Start a driver; returns at once.

        Args:
            session: what its job will need.
            warm: whether to start the session before there is a job.
        """


class DriverProcess(Driver):
    """A driver that is a child process, and ends when this process lets its standard input go.

    Args:
        session: what the Spark session of the process is made from.
        endpoint: the server's address, as clients see it.
        warm: whether to start the session ahead.
        program: what runs the process; arguments follow.
        variables: what the process has in its environment beside those of this one.
    """

    def __init__(
        self,
        session: Session,
        endpoint: str,
        *,
        warm: bool,
        program: Sequence[str] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        command = list(program or (sys.executable, "-m", "sparkdrain.server.driver_main"))
        self._process = subprocess.Popen(  # noqa: S603 - this very Python
            [*command, endpoint, *([WARM] if warm else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(variables or {})},
            start_new_session=True,  # Ctrl-C is for the server
        )
        assert self._process.stdin is not None
        self._stdin = self._process.stdin
        with contextlib.suppress(OSError):  # it ended at once: `service` says why
            self._stdin.write(session.encode())
            self._stdin.flush()
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._said = threading.Event()
        self._lock = threading.Lock()
        self._endpoint = ""
        self._is_ready = False
        self._channel: grpc.Channel | None = None
        for target, stream in ((self._read_endpoint, "out"), (self._read_errors, "err")):
            name = f"sparkdrain-driver-{self.pid}-{stream}"
            threading.Thread(target=target, name=name, daemon=True).start()

    @property
    @override
    def pid(self) -> int:
        return self._process.pid

    @property
    @override
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    @override
    def is_ready(self) -> bool:
        return self._is_ready

    @override
    def service(self) -> JobServiceStub:
        self._said.wait(_START_SECONDS)
        if not self._endpoint:
            raise self.lost()
        with self._lock:
            if self._channel is None:
                self._channel = grpc.insecure_channel(self._endpoint, options=UNLIMITED)
            return beam_job_api_pb2_grpc.JobServiceStub(self._channel)

    @override
    def lost(self) -> DriverLost:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_REASON_SECONDS)
        return DriverLost(
            f"The job's driver process {self.pid} {_ending(self._process.poll())}",
            "\n".join(self._last),
        )

    @override
    def kill(self) -> None:
        with contextlib.suppress(OSError):
            self._process.kill()

    @override
    def end(self) -> None:
        with contextlib.suppress(OSError):
            self._stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
        if self._channel is not None:
            self._channel.close()

    def _read_endpoint(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            self._endpoint = stream.readline().decode().strip()
            self._said.set()
            for line in stream:
                self._is_ready |= line.decode().strip() == READY

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            while line := stream.readline(_LONGEST_LINE):
                self._last.append(line.decode(errors="replace").rstrip())


def _ending(code: int | None) -> str:
    if code is None:
        return "does not answer."
    if code >= 0:
        return f"ended with the exit code {code}."
    name = signal.Signals(-code).name
    why = {
        signal.SIGKILL: " Linux does so when memory runs out: see the kernel's log (dmesg).",
        signal.SIGSEGV: " A library in the process is broken.",
    }.get(signal.Signals(-code), "")
    return f"was ended by the signal {name}.{why}"
