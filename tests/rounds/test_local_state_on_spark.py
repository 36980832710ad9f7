"""A slot that is opened again on its host downloads nothing that lies there: on a real Spark."""

from __future__ import annotations

import os
import shutil
import signal
import time

import pytest

from sparkdrain.rounds.driver.tell import FETCHED, LOCAL
from tests.support.counting_job import assert_counted_once, checkpoints, count, wait_for

pytestmark = pytest.mark.spark


def moved(result) -> dict[str, int]:
    found = {c.key.metric.name: c.committed for c in result.metrics().query()["counters"]}
    return {name: found[name] for name in (LOCAL, FETCHED)}


def test_after_a_kill_and_after_a_restart_no_state_is_downloaded(tmp_path):
    impulses, begin = 100_000, time.time()
    state = f"--state_dir={tmp_path}/state"
    result = count(tmp_path, impulses, begin, state)
    wait_for(lambda: checkpoints(tmp_path))
    os.kill(int(next((tmp_path / "pids").iterdir()).name), signal.SIGKILL)
    wait_for(lambda: LOCAL in str(result.metrics().query()["counters"]))
    after_kill = moved(result)
    assert after_kill[FETCHED] == 0
    assert after_kill[LOCAL] > 0
    result.cancel()

    result = count(tmp_path, impulses, begin, "--resume", state)
    wait_for(lambda: LOCAL in str(result.metrics().query()["counters"]))
    result.drain()
    result.wait_until_finish()
    assert_counted_once(result)
    assert moved(result)[FETCHED] == 0
    assert moved(result)[LOCAL] > 0


def test_without_the_folder_or_its_files_all_is_downloaded(tmp_path):
    impulses, begin = 100_000, time.time()
    result = count(tmp_path, impulses, begin, f"--state_dir={tmp_path}/state")
    wait_for(lambda: checkpoints(tmp_path))
    result.cancel()
    shutil.rmtree(tmp_path / "state")
    (tmp_path / "state").touch()  # no folder can be made there

    result = count(tmp_path, impulses, begin, "--resume", f"--state_dir={tmp_path}/state")
    wait_for(lambda: LOCAL in str(result.metrics().query()["counters"]))
    result.drain()
    result.wait_until_finish()
    assert_counted_once(result)
    assert moved(result)[LOCAL] == 0
    assert moved(result)[FETCHED] > 0
