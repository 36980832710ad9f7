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
from sparkdrain.standby.drivers import TERMS, Term, set_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from sparkdrain.coordination.address import StoreAddress

_MARK = "SPARKDRAIN_STANDING"
_NUMBER = "SPARKDRAIN_STANDING_NUMBER"
_SECONDS = 240.0


@dataclass
class DriverProgram:
    """One driver; its processes carry its number."""

    number: int
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
        number = len(self.started) + 1
        log = self._folder / f"driver-{number}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                self._command,
                env={
                    **os.environ,
                    _MARK: str(self._folder),
                    _NUMBER: str(number),
                    "PYTHONPATH": os.pathsep.join(sys.path),
                    **self._more,
                },
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        self.started.append(DriverProgram(number, process, log))
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

    def waits(self, one: DriverProgram, after: int = 0) -> bool:
        """Whether a driver has said that it waits; ``after`` as much as it had said before."""
        return " waits: " in one.said()[after:]

    def kill(self, one: DriverProgram, *, whole: bool = False) -> None:
        """End a driver's program without a chance to do anything; ``whole``: all it has started."""
        os.kill(one.process.pid, signal.SIGKILL)
        while whole and (processes := self._processes(one)):
            _send(processes, signal.SIGKILL)
        one.process.wait()

    def stop(self, one: DriverProgram) -> None:
        """End it as a service manager does, and wait until it has ended."""
        os.kill(one.process.pid, signal.SIGTERM)
        one.process.wait(_SECONDS)

    def pause(self, one: DriverProgram, *, whole: bool = False) -> None:
        """Let it do nothing, without knowing; ``whole``: also all it has started."""
        os.kill(one.process.pid, signal.SIGSTOP)
        _send(self._processes(one) if whole else [], signal.SIGSTOP)

    def go_on(self, one: DriverProgram) -> None:
        """The end of ``pause``."""
        _send(self._processes(one), signal.SIGCONT)

    def _processes(self, one: DriverProgram | None = None) -> list[psutil.Process]:
        """Of a driver, or of all."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                known = process.environ()
                is_meant = one is None or known.get(_NUMBER) == str(one.number)
                is_ours = known.get(_MARK) == str(self._folder)
                if is_ours and is_meant and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found


def _send(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
