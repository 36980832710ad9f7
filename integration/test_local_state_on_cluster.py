"""After all of a job was stopped, its slots go to the hosts that have their state."""

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
from spark_cluster import STATE

from sparkdrain.rounds.driver.openings import FETCHED, LOCAL
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark]

# As in a main program: executors cannot import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

# For longer than a session needs to start: what is due before that comes at once.
IMPULSES, EVERY, KEYS = 1600, 0.05, 8


class Count(beam.DoFn):
    """Counts the elements of each key."""

    COUNT = CombiningValueStateSpec("count", VarIntCoder(), sum)

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        count.add(1)
        Metrics.distribution("live", "counts").update(count.read())


def start(on, url, folder, begin):
    pipeline = on(
        url,
        f"--checkpoint_dir={folder}",
        f"--state_dir=${STATE}",
        "--resume",
        "--slots=4",
        "--job_name=local",
        "--checkpoint_ms=500",
        "--spark_conf=spark.locality.wait=1m",
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
    wait_until(lambda: list(tmp_path.glob("local/manifests/*/*.manifest")), seconds=300, pause=0.1)
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
    found = result.metrics().query()
    counters = {c.key.metric.name: c.committed for c in found["counters"]}
    print(f"{counters[LOCAL]:,} bytes local, {counters[FETCHED]:,} fetched")
    assert counters[FETCHED] == 0
    assert counters[LOCAL] > 0
    (counts,) = [c for c in found["distributions"] if c.key.metric.name == "counts"]
    each = IMPULSES // KEYS
    assert counts.committed.max == each
    assert counts.committed.sum == KEYS * each * (each + 1) // 2
