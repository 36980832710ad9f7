"""Fixtures that start tasks as processes of their own, and see that no process is left."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hosted
import psutil
import pytest

import sparkdrain
from sparkdrain.hosts.leash import Leash
from sparkdrain.hosts.line import HostId
from sparkdrain.lines.encrypted import Certificate
from sparkdrain.lines.server import TcpBind
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

_HERE = Path(__file__).parent
_SOURCES = Path(sparkdrain.__file__).parent.parent
_MARK = "SPARKDRAIN_TEST_OF_HOSTS"


class Bench:
    """A driver with its leash, and tasks as processes."""

    def __init__(self, directory: Path, certificate: Certificate | None = None) -> None:
        self.directory = directory
        self.leash = Leash(TcpBind("127.0.0.1", "127.0.0.1", certificate))
        self.environ = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(_SOURCES), str(_HERE)]),
            _MARK: uuid.uuid4().hex,
        }

    def orders(self, request: str, slot: int = 0, **more: Any) -> hosted.Orders:
        given = {
            "leash": self.leash.endpoint,
            "keeper": os.getpid(),
            "directory": self.directory,
            **more,
        }
        return hosted.Orders(HostId("job", slot), request.encode(), **given)

    def start(
        self, request: str, slot: int = 0, pass_fds: tuple[int, ...] = (), **more: Any
    ) -> subprocess.Popen[bytes]:
        with (self.directory / "stderr").open("ab") as errors:
            task = subprocess.Popen(
                [sys.executable, str(_HERE / "hosted.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=self.environ,
                pass_fds=pass_fds,
            )
        task.stdin.write(pickle.dumps(self.orders(request, slot, **more)))
        task.stdin.close()
        return task

    def outcome(self, task: subprocess.Popen[bytes]) -> list[tuple[int, bytes]]:
        """What came out of a task; raises what it raised."""
        with task:
            answer = pickle.loads(task.stdout.read())
        if isinstance(answer, Exception):
            raise answer
        return answer

    def kill(self, task: subprocess.Popen[bytes]) -> None:
        task.kill()
        task.wait()
        task.stdout.close()

    def ask(self, request: str, slot: int = 0, **more: Any) -> list[tuple[int, bytes]]:
        return self.outcome(self.start(request, slot, **more))

    def here(self, request: str, slot: int = 0, **more: Any) -> list[tuple[int, bytes]]:
        """Call from this process, which cannot start hosts."""
        return list(self.orders(request, slot, fresh=False, **more).run())

    def mark(self, name: str) -> Path:
        return self.directory / name

    def wait_for(self, name: str) -> int:
        """Wait for a mark of the service; the process that left it."""
        return int(wait_until(lambda: self.mark(name).exists() and self.mark(name).read_text()))

    def processes(self) -> list[psutil.Process]:
        """All that were started from here and are still alive."""
        return [
            process
            for process in psutil.process_iter()
            if process.pid != os.getpid() and self._is_ours(process)
        ]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            alive = process.status() != psutil.STATUS_ZOMBIE
            return alive and process.environ().get(_MARK) == self.environ[_MARK]
        except psutil.Error:
            return False

    def files(self) -> list[Path]:
        """What hosts have left."""
        return [path for path in self.directory.rglob("*") if path.parent != self.directory]


@pytest.fixture
def encrypted() -> bool:
    """Whether lines are encrypted; test modules have their own."""
    return False


@pytest.fixture
def bench(tmp_path, encrypted) -> Iterator[Bench]:
    bench = Bench(tmp_path, Certificate.make() if encrypted else None)
    yield bench
    assert bench.leash.close() == ()
    try:
        wait_until(lambda: not bench.processes())
    finally:
        for process in bench.processes():
            process.kill()
