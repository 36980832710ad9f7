"""A storage that hangs costs a streaming job checkpoints, and nothing else; on a real Spark."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.support import hanging_file_system
from tests.support.counting_job import assert_counted_once, checkpoints, count, seen, wait_for
from tests.support.hanging_file_system import closed, waiting

pytestmark = pytest.mark.spark

# More than will ever come.
IMPULSES = 10**6


# If the process dies, too, the next one hangs as well, with the state of the last checkpoint.
@pytest.mark.parametrize("dies", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_rounds_go_on_while_an_upload_hangs_and_the_checkpoint_comes_when_it_ends(tmp_path, dies):
    result = count(
        tmp_path,
        IMPULSES,
        time.time(),
        f"--checkpoint_dir={hanging_file_system.SCHEME}://checkpoints",
        f"--needy_root={tmp_path}",
        f"--beam_plugins={hanging_file_system.__name__}",
    )
    wait_for(lambda: checkpoints(tmp_path))
    closed(tmp_path).touch()
    wait_for(lambda: waiting(tmp_path))
    there = checkpoints(tmp_path)
    if dies:
        os.kill(waiting(tmp_path)[0], signal.SIGKILL)
        wait_for(lambda: len(waiting(tmp_path)) > 1)
    before, some_intervals = seen(tmp_path), time.monotonic() + 1
    wait_for(lambda: seen(tmp_path) > before + 20 and time.monotonic() > some_intervals)
    assert set(checkpoints(tmp_path)) <= set(there)
    closed(tmp_path).unlink()
    wait_for(lambda: set(checkpoints(tmp_path)) - set(there))
    result.drain()
    result.wait_until_finish()
    assert_counted_once(result)
