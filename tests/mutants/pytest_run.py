"""Runs tests in a copy of the tree, with a limit to the time that they may take."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
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
_FIRST_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
_NO_TESTS = 5


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


def run_tests(tree: Path, tests: Sequence[str], limit: float) -> PytestRun:
    """Run tests in a tree until the first one fails, for at most ``limit`` seconds."""
    begun = time.monotonic()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            [sys.executable, *_PYTEST, *tests],
            cwd=tree,
            env=environment(tree),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code: int | None
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(process)
        output.seek(0)
        return PytestRun(code, output.read(), time.monotonic() - begun)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a run and all that it has started: a JVM, hosts, workers."""
    try:
        left = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        left = []
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for child in left:
        with suppress(psutil.NoSuchProcess):
            child.kill()
    process.wait()
