"""Hosts outlive Spark's tasks, workers and cancelled jobs, but not the leash."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from integration.spark_cluster import SparkCluster

PROGRAM = Path(__file__).with_name("rounds_on_spark.py")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("reuse", "daemon"),
    [
        ("true", "sparkdrain.stages.daemon"),
        pytest.param("false", "pyspark.daemon", marks=pytest.mark.slow),
    ],
)
def test_a_slot_finds_its_state_again_in_every_spark_job(python, tmp_path, reuse, daemon) -> None:
    check(python(str(PROGRAM), "local[2]", reuse, daemon, str(tmp_path)), reuse)


@pytest.mark.slow
@pytest.mark.spark
def test_a_slot_finds_its_state_again_from_every_executor_and_ends_with_its_own(
    python, tmp_path
) -> None:
    with SparkCluster(workers=2, cores=1) as cluster:
        done = python(str(PROGRAM), cluster.url, "true", "pyspark.daemon", str(tmp_path))
    outcome = check(done, "true")
    assert outcome["lost"] == ["the executor is gone; it exited with status 0"]


def check(done, reuse: str) -> dict:
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout.splitlines()[-1])
    first, second, cancelled, last = outcome["rounds"]
    for calls, found in ((1, first), (2, second), (4, last)):
        assert sorted((each["slot"], each["calls"]) for each in found) == [(0, calls), (1, calls)]
    hosts = [{each["slot"]: each["host"] for each in found} for found in (first, second, last)]
    assert hosts[0] == hosts[1] == hosts[2]
    assert [each["records"] for each in last] == [2, 2]
    assert cancelled == []
    # The last tasks were to be where the hosts are.
    assert outcome["visits"] == 0
    if reuse == "false":
        workers = [each["worker"] for found in (first, second, last) for each in found]
        assert len(set(workers)) == 6
    assert (outcome["unended"], outcome["left"]) == (0, [])
    return outcome
