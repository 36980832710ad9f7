"""Drivers of one job share a Spark cluster: the one that waits leaves it to the leader."""

from __future__ import annotations

import os
import sys
import time

import pytest
from spark_cluster import EXECUTOR_OPTIONS, SparkCluster
from zookeeper_server import ZooKeeperServer

from sparkdrain.cli.main import main
from sparkdrain.coordination.address import StoreAddress
from tests.support import standing_job
from tests.support.standing_drivers import StandingDrivers

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_driver_that_waits_holds_no_executors_and_gets_those_of_the_leader(tmp_path, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    for name in ("hosts", "out"):
        (tmp_path / name).mkdir()
    checkpoints = f"{tmp_path}/checkpoints"
    with SparkCluster(workers=2, cores=1) as cluster, ZooKeeperServer() as server:
        store = f"{server.address}/standby"
        command = [
            sys.executable,
            "-m",
            "tests.support.standing_job",
            str(tmp_path),
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
        ]
        drivers = StandingDrivers(
            command, tmp_path, StoreAddress("zookeeper", store), standing_job.JOB, checkpoints
        )
        with drivers as standing:
            first, second = standing.start(), standing.start()
            standing.until(lambda: standing_job.epochs(tmp_path), "a first checkpoint")
            leader = standing.leader()
            other = second if leader is first else first
            standing.until(lambda: standing.waits(other), "one that waits")
            (of_leader,) = cluster.applications()

            before, killed = standing_job.epochs(tmp_path), time.monotonic()
            standing.kill(leader)
            standing.until(
                lambda: standing_job.epochs(tmp_path) - before, "a checkpoint of the next leader"
            )
            print(f"its first checkpoint came {time.monotonic() - killed:.1f} s after SIGKILL")
            assert len(cluster.applications() - {of_leader}) == 1
            assert main(["drain", "run", f"--metadata_store=zookeeper:{store}"]) == 0
            assert other.process.wait(120) == 0, other.said()
            assert "ended as DRAINED" in other.said()
            assert standing_job.check_outcome(tmp_path) > 0
