"""A program that is started again, with ``--resume``, whenever it was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_MARK = "SPARKDRAIN_SUPERVISED"
_LIFE = "SPARKDRAIN_SUPERVISED_LIFE"
_SECONDS = 180.0
_MOST_STARTS = 20


class Supervised:
    """A program, whatever becomes of its processes; use it as a context manager.

    Args:
        command: starts it.
        folder: for what it prints; names its processes, too.
    """

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._command = command
        self._folder = folder
        self._driver: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def __enter__(self) -> Supervised:
        self._start()
        return self

    def __exit__(self, *error: object) -> None:
        while processes := self.processes():
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(processes, 1)
        if self._driver is not None:
            self._driver.wait()

    def until(self, holds: Callable[[], object]) -> None:
        """Look after the program until something holds."""
        end = time.monotonic() + _SECONDS
        while not holds():
            if self._driver is not None and self._driver.poll() not in (None, 0):
                self._start()
            assert time.monotonic() < end, f"it did not come; the program has said:\n{self.log()}"
            # Whoever waits looks through all processes, which takes more than a moment.
            time.sleep(0.1)

    def has_ended_well(self) -> bool:
        """Whether its last life has exit code 0."""
        return self._driver is not None and self._driver.poll() == 0

    def kill(self, pid: int) -> None:
        """End one of its processes without a chance to do anything."""
        assert self.kills(pid), f"{pid} is not one of its"

    def kills(self, pid: int) -> bool:
        """Whether a process is one of its, and is ended without a chance to do anything."""
        if pid not in self._pids():
            return False
        os.kill(pid, signal.SIGKILL)
        if pid == self.driver:
            # It looks dead before its last thread has ended, and is not reaped until then.
            self._driver.wait()
        while pid in self._pids():
            time.sleep(0.02)
        return True

    def _pids(self) -> set[int]:
        return {process.pid for process in self.processes()}

    def living(self) -> set[int]:
        """The processes of the present life; none if the program or its JVM has ended."""
        if self._driver is None or self._driver.poll() is not None or not self.jvms():
            return set()
        return {process.pid for process in self.processes(life=self.starts)}

    def hosts(self) -> set[int]:
        """Those of the present life that lead a group in a session whose first process is gone."""
        found = set()
        for pid in self.living():
            with suppress(ProcessLookupError):
                if os.getpgid(pid) == pid and not psutil.pid_exists(os.getsid(pid)):
                    found.add(pid)
        return found

    @property
    def driver(self) -> int:
        """The process of the program itself."""
        assert self._driver is not None
        return self._driver.pid

    def jvms(self) -> list[int]:
        """Spark's process below the program, if it is there."""
        found = []
        for process in self.processes(life=self.starts):
            # It may end while it is looked at.
            with suppress(psutil.NoSuchProcess):
                if any("SparkSubmit" in word for word in process.cmdline()):
                    found.append(process.pid)
        return found

    def processes(self, life: int | None = None) -> list[psutil.Process]:
        """All of its processes that are alive, of one life or of whichever."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                environ = process.environ()
                if (
                    environ.get(_MARK) == str(self._folder)
                    and (life is None or environ.get(_LIFE) == str(life))
                    and process.status() != psutil.STATUS_ZOMBIE
                ):
                    found.append(process)
        return found

    def log(self) -> str:
        """The end of what its last life has printed."""
        return (self._folder / f"life-{self.starts}.log").read_text(errors="replace")[-5000:]

    def _start(self) -> None:
        assert self.starts < _MOST_STARTS, f"it does not come up; it has said:\n{self.log()}"
        self.starts += 1
        with (self._folder / f"life-{self.starts}.log").open("wb") as log:
            self._driver = subprocess.Popen(
                [*self._command, "--resume"],
                env={
                    **os.environ,
                    _MARK: str(self._folder),
                    _LIFE: str(self.starts),
                    "PYTHONPATH": os.pathsep.join(sys.path),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
