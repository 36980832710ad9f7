"""Tests that a mutation run ends before their time leave nothing behind."""

from __future__ import annotations

import threading
from pathlib import Path

import psutil
import pytest

from tests.mutants.pytest_run import Interrupted, PytestRun, run_tests
from tests.support.waiting import wait_until

HANGS = """
import os, pathlib, subprocess, tempfile, time

def test_it():
    sleep = subprocess.Popen(["sleep", "600"], start_new_session=True)
    scratch = pathlib.Path(tempfile.mkdtemp())
    (scratch / "left").touch()
    pathlib.Path("told.part").write_text(f"{os.getpid()} {sleep.pid} {scratch}")
    os.rename("told.part", "told")
    time.sleep(600)
"""


def test_a_run_that_is_ended_leaves_no_process_and_no_file(tmp_path):
    (tmp_path / "test_hangs.py").write_text(HANGS)
    told, stop = tmp_path / "told", threading.Event()

    def end() -> None:
        wait_until(told.exists)
        stop.set()

    waiting = threading.Thread(target=end)
    waiting.start()
    with pytest.raises(Interrupted):
        run_tests(tmp_path, ["test_hangs.py"], 600, stop)
    waiting.join()
    *pids, scratch = told.read_text().split()
    assert not any(lives(int(pid)) for pid in pids)
    assert not Path(scratch).exists()


def lives(pid: int) -> bool:
    """Whether a process is there, and not only its entry until its parent asks for its end."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_the_first_test_that_failed_is_named_and_not_what_it_has_logged():
    output = "ERROR    a.module:a.py:1 it failed\nFAILED tests/test_a.py::test_it[a b] - assert 0\n"
    assert PytestRun(1, output, 1.0).failed == "tests/test_a.py::test_it[a b]"
