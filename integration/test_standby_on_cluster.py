"""Drivers of one job share a Spark cluster: the one that waits leaves it to the leader."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING

import pytest
from spark_cluster import EXECUTOR_OPTIONS, SparkCluster
from zookeeper_server import ZooKeeperServer

from sparkdrain.cli.main import main
from sparkdrain.coordination.address import StoreAddress
from tests.support import standing_job
from tests.support.standing_drivers import StandingDrivers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@contextlib.contextmanager
def two_drivers(folder: Path, cluster: SparkCluster, *flags: str) -> Iterator[StandingDrivers]:
    """Two that share a cluster, one of which has led the job to its first checkpoint."""
    for name in ("hosts", "out"):
        (folder / name).mkdir()
    checkpoints = f"{folder}/checkpoints"
    with ZooKeeperServer() as server:
        store = f"{server.address}/standby"
        command = [
            sys.executable,
            "-m",
            "tests.support.standing_job",
            str(folder),
            "--runner=sparkdrain.SparkDrainRunner",
            f"--spark_master_url={cluster.url}",
            EXECUTOR_OPTIONS,
            f"--spark_conf=spark.executorEnv.PYTHONPATH={os.pathsep.join(sys.path)}",
            "--slots=2",
            "--progress=off",
            "--streaming",
            "--standby",
            f"--job_name={standing_job.JOB}",
            f"--checkpoint_dir={checkpoints}",
            "--checkpoint_ms=300",
            "--run_id=run",
            f"--metadata_store=zookeeper:{store}",
            *flags,
        ]
        drivers = StandingDrivers(
            command,
            folder,
            StoreAddress("zookeeper", store),
            standing_job.JOB,
            checkpoints,
            {"PYSPARK_PYTHON": sys.executable},
        )
        with drivers as standing:
            started = [standing.start(), standing.start()]
            standing.until(lambda: standing_job.epochs(folder), "a first checkpoint")
            leader = standing.leader()
            other = next(one for one in started if one is not leader)
            standing.until(lambda: standing.waits(other), "one that waits")
            yield standing
            assert main(["drain", "run", f"--metadata_store=zookeeper:{store}"]) == 0
            assert other.process.wait(120) == 0, other.said()
            assert "ended as DRAINED" in other.said()
            assert standing_job.check_outcome(folder) > 0


def test_a_driver_that_waits_holds_no_executors_and_gets_those_of_the_leader(tmp_path):
    with (
        SparkCluster(workers=2, cores=1) as cluster,
        two_drivers(tmp_path, cluster) as standing,
    ):
        (of_leader,) = cluster.applications()
        before, killed = standing_job.epochs(tmp_path), time.monotonic()
        standing.kill(standing.leader())
        standing.until(
            lambda: standing_job.epochs(tmp_path) - before, "a checkpoint of the next leader"
        )
        print(f"its first checkpoint came {time.monotonic() - killed:.1f} s after SIGKILL")
        assert len(cluster.applications() - {of_leader}) == 1


def test_executors_that_came_while_the_leader_was_silent_are_given_back(tmp_path):
    flags = ("--standby_lease_ms=40000", "--spark_conf=spark.cores.max=2")
    with (
        SparkCluster(workers=2, cores=2, memory="2g") as cluster,
        two_drivers(tmp_path, cluster, *flags) as standing,
    ):
        (of_leader,), leader = cluster.applications(), standing.leader()
        standing.pause(leader)
        standing.until(lambda: len(cluster.applications()) == 2, "executors of the one that waits")
        standing.go_on(leader)
        standing.until(
            lambda: cluster.applications() == {of_leader}, "the end of the executors that waited"
        )
        before = standing_job.newest(tmp_path)
        standing.until(lambda: standing_job.newest(tmp_path) > before + 2, "more checkpoints")
        assert standing.leader() is leader
        assert cluster.applications() == {of_leader}
