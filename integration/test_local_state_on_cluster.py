"""Slots go to hosts that have their state: after all was stopped, and after a host is lost."""

from __future__ import annotations

import sys
import time

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.metrics import Metrics
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.userstate import CombiningValueStateSpec
from driver_session import stop_session
from spark_cluster import STATE, SparkCluster

from sparkdrain.checkpoints.local_storage import LocalStorage
from sparkdrain.checkpoints.paths import Paths
from sparkdrain.checkpoints.publish import newest
from sparkdrain.rounds.driver.tell import FETCHED, LOCAL
from tests.support.manifests import manifests
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark]

# As in a main program: executors cannot import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

# For longer than a session needs to start: what is due before that comes at once.
IMPULSES, EVERY, KEYS = 1600, 0.05, 8
CHECKPOINT_MS = 500


class Count(beam.DoFn):
    """Counts the elements of each key."""

    COUNT = CombiningValueStateSpec("count", VarIntCoder(), sum)

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        count.add(1)
        Metrics.distribution("live", "counts").update(count.read())


def start(on, url, folder, begin, *flags):
    pipeline = on(
        url,
        f"--checkpoint_dir={folder}",
        f"--state_dir=${STATE}",
        "--resume",
        "--slots=4",
        "--job_name=local",
        f"--checkpoint_ms={CHECKPOINT_MS}",
        "--spark_conf=spark.locality.wait=1m",
        # Spark would wait 15 s for a dead executor to come back.
        "--spark_conf=spark.shuffle.io.maxRetries=1",
        "--spark_conf=spark.shuffle.io.retryWait=1s",
        *flags,
    )
    _ = (
        pipeline
        | PeriodicImpulse(begin, begin + IMPULSES * EVERY, EVERY)
        | beam.Map(lambda now: (round((now - begin) / EVERY) % KEYS, now)).with_output_types(
            tuple[int, float]
        )
        | beam.ParDo(Count())
    )
    return pipeline.run()


def test_no_state_is_downloaded_after_all_was_restarted(on, cluster, tmp_path):
    begin = time.time()
    result = start(on, cluster.url, tmp_path, begin)
    wait_until(lambda: manifests(tmp_path, "local"), seconds=300, pause=0.1)
    result.cancel()
    stop_session()
    # The hosts change places: only who asks them knows where the files are.
    first, second = cluster.state_folders()
    assert len(list((first / "files").iterdir())) > 1
    assert len(list((second / "files").iterdir())) > 1
    aside = first.with_name("aside")
    first.rename(aside)
    second.rename(first)
    aside.rename(second)

    result = start(on, cluster.url, tmp_path, begin)
    result.wait_until_finish()
    check(result)


def check(result) -> None:
    """Each element was counted once, and no state came from storage."""
    found = result.metrics().query()
    counters = {c.key.metric.name: c.committed for c in found["counters"]}
    print(f"{counters[LOCAL]:,} bytes local, {counters[FETCHED]:,} fetched")
    assert counters[FETCHED] == 0
    assert counters[LOCAL] > 0
    (counts,) = [c for c in found["distributions"] if c.key.metric.name == "counts"]
    each = IMPULSES // KEYS
    assert counts.committed.max == each
    assert counts.committed.sum == KEYS * each * (each + 1) // 2


def test_the_slots_of_a_lost_host_go_on_where_copies_of_their_state_are(on, tmp_path, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    stop_session()
    with SparkCluster(workers=2, cores=1) as cluster:
        begin = time.time()
        # After a checkpoint was copied, the host is lost before the next one.
        flags = ["--warm_copies=1", "--checkpoint_ms=15000"]
        # Tasks of the lost slots are not to wait for an executor that does not come back.
        flags += ["--spark_conf=spark.locality.wait=500ms"]
        result = start(on, cluster.url, tmp_path, begin, *flags)
        here, lost = cluster.state_folders()
        wait_until(lambda: holds_all(tmp_path, here) and holds_all(tmp_path, lost), 300, 0.1)
        cluster.lose(cluster.hosts[1])
        result.wait_until_finish()
        stop_session()
    check(result)


def holds_all(root, folder) -> bool:
    """Whether a host has all files of the newest checkpoint, of whichever slot."""
    manifest = newest(LocalStorage(), Paths(str(root), "local"))
    if manifest is None:
        return False
    files = [file for shard in manifest.shards for file in shard.files if file.path]
    return bool(files) and all((folder / "files" / file.digest).exists() for file in files)
