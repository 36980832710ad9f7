"""Hosts that are network namespaces are restarted, with the job that runs on them.

Where namespaces cannot be made, the hosts are addresses of this machine.
"""

from __future__ import annotations

import sys
import time

import pytest
import test_local_state_on_cluster as local_state
from driver_session import stop_session
from network_hosts import hosts
from spark_cluster import SparkCluster

from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(1800)]

PATIENCE_SECONDS = 400.0
HOSTS = 3


@pytest.fixture
def where(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    stop_session()
    made = hosts(HOSTS)
    print(f"\nhosts are {type(made).__name__}: {[made.address(n) for n in range(HOSTS)]}")
    yield made
    made.close()


def wait_for_checkpoint(folder) -> None:
    """One more is published."""
    there = set(folder.glob("*/manifests/*/*.manifest"))
    wait_until(lambda: set(folder.glob("*/manifests/*/*.manifest")) - there, PATIENCE_SECONDS, 0.1)


def test_no_state_is_downloaded_after_a_job_and_all_of_its_hosts_were_restarted(
    on, where, tmp_path
):
    begin = time.time()
    with SparkCluster(workers=2, cores=1, where=where) as cluster:
        result = local_state.start(on, cluster.url, tmp_path, begin, *where.flags)
        wait_for_checkpoint(tmp_path)
        result.cancel()
        stop_session()
        for host in cluster.hosts:
            cluster.lose(host)
            assert cluster.join() == host
        result = local_state.start(on, cluster.url, tmp_path, begin, *where.flags)
        result.wait_until_finish()
        stop_session()
    local_state.check(result)
