"""Drivers of one job in processes of their own: the leader is killed and paused, on real Sparks."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import pytest

from sparkdrain.cli.main import main
from sparkdrain.coordination.address import StoreAddress
from tests.support import standing_job
from tests.support.standing_drivers import StandingDrivers

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LEASE = 2.0


def drivers(folder: Path, *flags: str) -> StandingDrivers:
    for name in ("hosts", "out"):
        (folder / name).mkdir()
    command = [
        sys.executable,
        "-m",
        "tests.support.standing_job",
        str(folder),
        "--runner=sparkdrain.SparkDrainRunner",
        "--spark_master_url=local[1]",
        "--slots=1",
        "--progress=off",
        "--streaming",
        "--standby",
        f"--standby_lease_ms={LEASE * 1000:.0f}",
        f"--job_name={standing_job.JOB}",
        f"--checkpoint_dir={folder}/checkpoints",
        "--checkpoint_ms=300",
        "--run_id=run",
        f"--metadata_store=file:{folder}/store",
        *flags,
    ]
    store = StoreAddress("file", f"{folder}/store")
    checkpoints = f"{folder}/checkpoints"
    return StandingDrivers(command, folder, store, standing_job.JOB, checkpoints)


def hosts(folder: Path) -> set[str]:
    return {path.name for path in (folder / "hosts").iterdir()}


def drain(folder: Path) -> None:
    assert main(["drain", "run", f"--metadata_store=file:{folder}/store"]) == 0


def test_another_driver_goes_on_when_the_leader_is_killed_and_when_it_is_paused(tmp_path):
    with drivers(tmp_path) as standing:
        first, second = standing.start(), standing.start()
        standing.until(
            lambda: standing.leader() and standing_job.epochs(tmp_path), "a first checkpoint"
        )
        leader = standing.leader()
        other = second if leader is first else first
        standing.until(lambda: standing.waits(other), "one that waits")

        before, killed = hosts(tmp_path), time.monotonic()
        standing.kill(leader)
        standing.until(lambda: hosts(tmp_path) - before, "a host of the next leader")
        print(f"went on {time.monotonic() - killed:.1f} s after SIGKILL")
        third = standing.start()
        standing.until(lambda: standing.waits(third), "one that waits")
        standing.until(
            lambda: "000002" in standing_job.epochs(tmp_path), "a checkpoint of the second"
        )

        before, paused = hosts(tmp_path), time.monotonic()
        standing.pause(other)
        standing.until(lambda: hosts(tmp_path) - before, "a host of the next leader")
        print(f"went on {time.monotonic() - paused:.1f} s after SIGSTOP")
        standing.go_on(other)
        standing.until(lambda: "stops working on the job" in other.said(), "its stepping down")
        standing.until(
            lambda: "000003" in standing_job.epochs(tmp_path), "a checkpoint of the third"
        )
        drain(tmp_path)
        for one in (other, third):
            assert one.process.wait(60) == 0, one.said()
            assert "ended as DRAINED" in one.said()
        assert standing_job.check_outcome(tmp_path) > 0
