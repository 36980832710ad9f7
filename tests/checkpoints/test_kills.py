"""A driver that is killed at any moment: the next one goes on from what was told, and no less."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import killed_driver
import pytest

from sparkdrain.checkpoints.catalogue import find, verify
from sparkdrain.checkpoints.local_storage import LocalStorage
from sparkdrain.checkpoints.paths import Paths


def run_and_kill(root, scratch, seconds):
    """The checkpoints that a driver told before it was killed, so long after it had begun."""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    process = subprocess.Popen(
        [sys.executable, killed_driver.__file__, root, str(scratch)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "begun\n", process.communicate()[1]
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    told, errors = process.communicate(timeout=100)
    timer.cancel()
    assert process.returncode < 0, errors
    return [int(line) for line in told.split("\n")[:-1]]


def kill_and_check(tmp_path, times, seed):
    root = str(tmp_path / "durable")
    chance = random.Random(seed)
    last = 0
    for _ in range(times):
        told = run_and_kill(root, tmp_path / "scratch", chance.uniform(0, 0.7))
        told = told or [last]
        scratch = tmp_path / "mine"
        number, _, store = killed_driver.take_up(root, scratch)
        # The last one may have been published without having been told.
        assert number in {told[-1], told[-1] + 1}
        assert killed_driver.numbers_in(store) == list(range(1, number + 1))
        store.close()
        last = number
    storage, paths = LocalStorage(), Paths(root, "job")
    for found in find(storage, root):
        assert not verify(storage, found, lambda size: None)
    # Whatever twenty kills left behind is gone but for the last one's.
    kept = {path for found in find(storage, root) for path in found.manifest.entries()}
    assert len(storage.list(paths.files)) <= 3 * len(kept) + 10
    assert last


def test_a_driver_that_is_killed_has_lost_nothing_that_it_told(tmp_path):
    kill_and_check(tmp_path, 3, seed=1)


@pytest.mark.slow
def test_a_driver_that_is_killed_again_and_again_has_lost_nothing_that_it_told(tmp_path):
    kill_and_check(tmp_path, 40, seed=2)
