"""A streaming job that loses processes or its driver, or is another one: on a real Spark."""

from __future__ import annotations

import os
import shutil
import signal
import time
from typing import TYPE_CHECKING

import pytest
from pyspark import SparkContext

from sparkdrain.errors import CheckpointRefused
from tests.support import needy_file_system
from tests.support.counting_job import assert_counted_once, checkpoints, count, wait_for

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

ENDS = "DONE", "FAILED"


def test_a_job_whose_host_is_killed_goes_on_from_its_newest_checkpoint(tmp_path):
    impulses = 80
    result = count(tmp_path, impulses, time.time())
    wait_for(lambda: checkpoints(tmp_path))
    os.kill(int(next((tmp_path / "pids").iterdir()).name), signal.SIGKILL)
    result.wait_until_finish()
    assert_counted_once(result, impulses)


def test_a_job_that_was_stopped_goes_on_if_it_is_asked_to_and_is_the_same(tmp_path):
    impulses, begin = 150, time.time()
    result = count(tmp_path, impulses, begin)
    wait_for(lambda: checkpoints(tmp_path))
    result.cancel()

    with pytest.raises(CheckpointRefused, match="Give --resume"):
        count(tmp_path, impulses, begin).wait_until_finish()
    with pytest.raises(CheckpointRefused, match=r"state 'count' of .*Count.* not there any more"):
        count(tmp_path, impulses, begin, "--resume", name="Tally").wait_until_finish()

    result = count(tmp_path, impulses, begin, "--resume")
    result.wait_until_finish()
    assert_counted_once(result, impulses)
    # There is nothing left to do, so nothing is done.
    result = count(tmp_path, impulses, begin, "--resume")
    result.wait_until_finish()
    assert_counted_once(result, impulses)


@pytest.mark.slow
def test_a_job_goes_on_on_other_machines_with_any_number_of_slots(tmp_path):
    impulses, begin = 300, time.time()
    lives = [("local[2]", "127.0.0.1"), ("local[3]", "127.0.0.2"), ("local[1]", "127.0.0.3")]
    before = None
    for number, (master, address) in enumerate(lives):
        home = tmp_path / str(number)
        home.mkdir()
        if before is not None:
            # All that there is of the job on the new machine is a copy of its checkpoints.
            (before / "checkpoints").rename(home / "checkpoints")
            shutil.rmtree(before)
        result = count(
            home,
            impulses,
            begin,
            "--resume",
            # What these need is known to the driver and to the processes of all slots.
            f"--checkpoint_dir={needy_file_system.SCHEME}://checkpoints",
            f"--needy_root={home}",
            f"--beam_plugins={needy_file_system.__name__}",
            f"--spark_master_url={master}",
            f"--spark_conf=spark.local.dir={home}/local",
            f"--spark_conf=spark.driver.host={address}",
            f"--spark_conf=spark.driver.bindAddress={address}",
        )
        if number < len(lives) - 1:
            stop_after_a_checkpoint(result, home)
        before = home
    result.wait_until_finish()
    assert_counted_once(result, impulses)


def stop_after_a_checkpoint(result, home: Path) -> None:
    known = set(checkpoints(home))
    wait_for(lambda: result.state in ENDS or set(checkpoints(home)) - known)
    if result.state in ENDS:
        result.wait_until_finish()
    assert list((home / "local").iterdir())
    result.cancel()
    wait_for(lambda: result.state == "CANCELLED")
    SparkContext.getOrCreate().stop()
