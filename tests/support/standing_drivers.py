"""Several drivers of one job, which stand by for each other; the leader is killed and paused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from sparkdrain.coordination.stores import Stores
from sparkdrain.standby.drivers import TERMS, set_name
from sparkdrain.standby.term import Term

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from sparkdrain.coordination.address import StoreAddress

_MARK = "SPARKDRAIN_STANDING"
_SECONDS = 240.0


@dataclass
class DriverProgram:
    """One driver."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self) -> str:
        """What it has printed."""
        return self.log.read_text(errors="replace")


class StandingDrivers:
    """Programs that all run one job with ``--standby``; use it as a context manager.

    Args:
        command: starts one.
        folder: for what they print.
        store: the metadata store that they use.
        job_name: of the job.
        checkpoints: its folder.
        more: environment variables.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        store: StoreAddress,
        job_name: str,
        checkpoints: str,
        more: Mapping[str, str] | None = None,
    ) -> None:
        self._command = command
        self._folder = folder
        self._stores = Stores()
        self._store = self._stores.open(store)
        self._name = set_name(job_name, checkpoints)
        self._more = more or {}
        self.started: list[DriverProgram] = []

    def __enter__(self) -> StandingDrivers:
        return self

    def __exit__(self, *error: object) -> None:
        while processes := self._processes():
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(processes, 1)
        for one in self.started:
            one.process.wait()
        self._store.close()

    def start(self) -> DriverProgram:
        """One more driver."""
        log = self._folder / f"driver-{len(self.started) + 1}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                self._command,
                env={
                    **os.environ,
                    _MARK: str(self._folder),
                    "PYTHONPATH": os.pathsep.join(sys.path),
                    **self._more,
                },
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        self.started.append(DriverProgram(process, log))
        return self.started[-1]

    def term(self) -> Term | None:
        """The newest term of the job."""
        found = self._store.get(TERMS, self._name)
        return None if found is None else Term.decode(found.value.partition(b"\n")[2])

    def leader(self) -> DriverProgram | None:
        """The driver that leads and has claimed the checkpoints, as the store knows it."""
        term = self.term()
        if term is None or term.state != "LEADING" or not term.epoch:
            return None
        pid = int(term.owner.split(":")[1])
        return next((one for one in self.started if one.process.pid == pid), None)

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait for something, for which all drivers that run are needed."""
        end = time.monotonic() + _SECONDS
        while not holds():
            said = "\n----\n".join(one.said()[-3000:] for one in self.started[-3:])
            assert time.monotonic() < end, f"{what} did not come; drivers have said:\n{said}"
            time.sleep(0.05)

    def waits(self, one: DriverProgram) -> bool:
        """Whether a driver has said that it waits."""
        return " waits: " in one.said()

    def kill(self, one: DriverProgram) -> None:
        """End a driver's program without a chance to do anything."""
        os.kill(one.process.pid, signal.SIGKILL)
        one.process.wait()

    def pause(self, one: DriverProgram) -> None:
        """Let it do nothing, without knowing."""
        os.kill(one.process.pid, signal.SIGSTOP)

    def go_on(self, one: DriverProgram) -> None:
        """The end of ``pause``."""
        os.kill(one.process.pid, signal.SIGCONT)

    def _processes(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if (
                    process.environ().get(_MARK) == str(self._folder)
                    and process.status() != psutil.STATUS_ZOMBIE
                ):
                    found.append(process)
        return found
