"""Runs ``kafka_copy`` as a supervisor would, and kills what belongs to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import kafka_copy
import psutil

from tests.support.manifests import manifests

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

MARK = "KAFKA_KILLS"
PATIENCE_SECONDS = 900.0
JVM = "driver's JVM"
# What is killed, and how often compared with the others: those that cost more are killed less.
KINDS = {"worker": 12, "host": 10, "executor": 2, "driver": 1, JVM: 1}


def wait_for(condition: Callable[[], bool], what: str, meanwhile: Callable[[], None]) -> None:
    """Wait for a condition, and do something all the while."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        meanwhile()
        assert time.monotonic() < end, f"{what} did not come"
        time.sleep(0.05)


class Copying:
    """The job, whatever becomes of its processes; use it as a context manager.

    A driver that ends before the job does is started again with ``--resume``.

    Args:
        folder: for checkpoints, logs and the like.
        arguments: of ``kafka_copy``, but for the folder.
    """

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._folder = folder
        self._arguments = arguments
        self._mark = f"{os.getpid()}-{folder}"
        self._driver: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def __enter__(self) -> Copying:
        self.look_after()
        return self

    def __exit__(self, *error: object) -> None:
        self.kill_all()

    def kill_all(self) -> None:
        """Kill all processes of the job. ``look_after`` starts it again."""
        if self._driver is not None:
            # Collected here: if psutil did it, the driver would seem to have ended well.
            self._driver.kill()
            self._driver.wait()
        while processes := list(self._processes()):
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(processes, 1)

    def look_after(self) -> None:
        """Start the driver, unless it runs or the job is over."""
        if self._driver is not None and self._driver.poll() in (None, 0):
            return
        self.starts += 1
        here = Path(__file__).parent
        with (self._folder / f"driver-{self.starts}.log").open("wb") as log:
            self._driver = subprocess.Popen(
                [
                    sys.executable,
                    kafka_copy.__file__,
                    *self._arguments,
                    f"--folder={self._folder}",
                    "--runner=sparkdrain.SparkDrainRunner",
                    "--progress=off",
                    f"--job_name={kafka_copy.JOB}",
                    f"--checkpoint_dir={self._folder}/checkpoints",
                    "--checkpoint_ms=500",
                    "--recoveries=10",
                    "--resume",
                ],
                env={
                    **os.environ,
                    MARK: self._mark,
                    "PYTHONPATH": os.pathsep.join([str(here), *sys.path]),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def is_over(self) -> bool:
        """Whether the driver has ended well."""
        assert self._driver is not None
        return self._driver.poll() == 0

    def newest(self) -> str:
        """The newest checkpoint."""
        found = manifests(self._folder / "checkpoints", kafka_copy.JOB)
        return max((path.name for path in found), default="")

    def wait_for_failure(self) -> str:
        """Start the driver, and wait until it fails; what it has logged in the end."""
        self.look_after()
        assert self._driver is not None
        driver = self._driver
        wait_for(lambda: driver.poll() is not None, "the end of the driver", lambda: None)
        assert not self.is_over()
        return self.log()

    def add(self, argument: str) -> None:
        """Give the program one more argument at its next start."""
        self._arguments += (argument,)

    def wait_for_checkpoint(self) -> None:
        """Wait for one that is newer than the newest of now."""
        before = self.newest()
        wait_for(lambda: self.newest() > before, f"a checkpoint after {before}", self.look_after)

    def kill(self, kind: str, chance: Random) -> int:
        """Kill a process, as soon as there is one of that kind."""
        found: list[int] = []

        def look() -> bool:
            found[:] = sorted(self.pids(kind))
            return bool(found)

        wait_for(look, kind, self.look_after)
        pid = chance.choice(found)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return pid

    def drain(self) -> None:
        """Drain the job."""
        (self._folder / "drain").touch()
        wait_for(self.is_over, "the end of the job", self.look_after)

    def pids(self, kind: str) -> list[int]:
        """The living processes of one of ``KINDS``."""
        hosts = {int(path.name) for path in (self._folder / "pids").glob("*")}
        return [process.pid for process in self._processes() if self._is(process, kind, hosts)]

    def _is(self, process: psutil.Process, kind: str, hosts: set[int]) -> bool:
        with suppress(psutil.NoSuchProcess):
            words = process.cmdline()
            is_java = "java" in process.name()
            match kind:
                case "executor":
                    return is_java and any("ExecutorBackend" in word for word in words)
                case "driver's JVM":
                    return is_java and any("SparkSubmit" in word for word in words)
                case "driver":
                    return self._driver is not None and process.pid == self._driver.pid
                case "host":
                    return process.pid in hosts
                case "worker":
                    # A child of the daemon that an executor has started.
                    parent = process.parent()
                    above = parent and parent.parent()
                    return bool(above) and "java" in above.name() and "java" not in parent.name()
        return False

    def _processes(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if process.environ().get(MARK) == self._mark:
                    found.append(process)
        return found

    def log(self) -> str:
        """The end of what the newest driver has logged."""
        return (self._folder / f"driver-{self.starts}.log").read_text(errors="replace")[-5000:]
