"""Runs tests in a copy of the tree, with a limit to the time that they may take."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from tests.mutants.tree import environment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_PYTEST = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0")
# Lines that a test has logged begin with ERROR and more than one blank.
_FIRST_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)
_NO_TESTS = 5
# All processes of a run inherit the folder for temporary files, which no other run has.
_MARK = "TMPDIR"
# How often to look whether tests are to end, or processes have ended; seconds.
_LOOK_AGAIN = 0.2


@dataclass(frozen=True, slots=True)
class PytestRun:
    """What came of one run.

    Attributes:
        code: that pytest ended with; None: it hung and was killed.
        output: what pytest printed.
        seconds: that the run took.
    """

    code: int | None
    output: str
    seconds: float

    @property
    def has_passed(self) -> bool:
        """Whether no test failed, which also holds if no test was selected."""
        return self.code in {0, _NO_TESTS}

    @property
    def has_begun(self) -> bool:
        """Whether pytest could import all that it was to run, and ran a test."""
        return self.code is None or re.search(r"\d+ (passed|failed)", self.output) is not None

    @property
    def failed(self) -> str:
        """The id of the first test that failed, or an empty text."""
        found = _FIRST_FAILED.search(self.output)
        return found[1] if found else ""


class Interrupted(Exception):
    """Tests were ended before their time, and nothing is known of them."""


def run_tests(
    tree: Path, tests: Sequence[str], limit: float, stop: threading.Event | None = None
) -> PytestRun:
    """Run tests in a tree until the first one fails, for at most ``limit`` seconds.

    Afterwards, no process that they have started is there, nor their folder for temporary files.

    Args:
        tree: a copy of the checkout.
        tests: ids of tests and test files.
        limit: seconds.
        stop: ends the tests when it is set.

    Raises:
        Interrupted: ``stop`` was set.
    """
    begun, stop = time.monotonic(), stop or threading.Event()
    with (
        tempfile.TemporaryDirectory(prefix="m-", ignore_cleanup_errors=True) as scratch,
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output,
    ):
        process = subprocess.Popen(
            [sys.executable, *_PYTEST, *tests],
            cwd=tree,
            env={**environment(tree), _MARK: scratch},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = _code_of(process, limit, stop)
        finally:
            _end(process, scratch)
        if stop.is_set():
            raise Interrupted
        output.seek(0)
        return PytestRun(code, output.read(), time.monotonic() - begun)


def _code_of(process: subprocess.Popen[bytes], limit: float, stop: threading.Event) -> int | None:
    """What a run ends with; None: it has not ended in time."""
    end = time.monotonic() + limit
    while not stop.is_set() and (left := end - time.monotonic()) > 0:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(min(left, _LOOK_AGAIN))
    return None


def _end(process: subprocess.Popen[bytes], scratch: str) -> None:
    """Kill a run and all that it has started: a JVM, hosts, workers, whatever their parent is."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    while left := [each for each in psutil.process_iter() if _is_of(each, scratch)]:
        for each in left:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(left, timeout=_LOOK_AGAIN)


def _is_of(process: psutil.Process, scratch: str) -> bool:
    """Whether a process has inherited the environment of a run, and lives."""
    try:
        return process.environ().get(_MARK) == scratch and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
