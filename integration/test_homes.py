"""A slot whose executor is killed gets a new home, and its tasks run there."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import apache_beam as beam
import psutil
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.metrics import Metrics
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.userstate import CombiningValueStateSpec
from driver_session import stop_session
from spark_cluster import STATE, SparkCluster

from sparkdrain.hosts.executor import named_in
from sparkdrain.rounds.driver.moves import MILLIS, MOVED
from sparkdrain.rounds.driver.placement import AT_HOME, AWAY
from sparkdrain.rounds.driver.tell import FETCHED, LOCAL
from tests.support.manifests import manifests
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark]

# As in a main program: executors cannot import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

IMPULSES, EVERY, KEYS = 600, 0.05, 8
PATIENCE_SECONDS = 400.0
FLAGS = (
    "--slots=4",
    "--job_name=homes",
    "--checkpoint_ms=500",
    # Longer than a level takes here: two slots share a core, and after the loss all do for a while.
    "--spark_conf=spark.locality.wait=1m",
    # Spark would wait 15 s for a dead executor to come back.
    "--spark_conf=spark.shuffle.io.maxRetries=1",
    "--spark_conf=spark.shuffle.io.retryWait=1s",
)


class Count(beam.DoFn):
    """Counts the elements of each key, and those of all keys by the host that has them."""

    COUNT = CombiningValueStateSpec("count", VarIntCoder(), sum)

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        count.add(1)
        Metrics.counter("hosts", os.environ["SPARK_LOCAL_IP"]).inc()
        Metrics.distribution("live", "counts").update(count.read())


@dataclass
class Noted(beam.DoFn):
    """As ``Count``; also notes the count of each key, with the host, in a file of the key."""

    folder: str
    COUNT = CombiningValueStateSpec("count", VarIntCoder(), sum)

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        count.add(1)
        Metrics.distribution("live", "counts").update(count.read())
        with (Path(self.folder) / str(element[0])).open("a") as file:
            file.write(f"{count.read()} {os.environ['SPARK_LOCAL_IP']}\n")


def noted(folder: Path) -> list[list[tuple[int, str]]]:
    """By key: its counts, and where they were made."""
    return [
        [(int(count), host) for count, host in map(str.split, file.read_text().splitlines())]
        for file in folder.iterdir()
    ]


def there(keys: list[tuple[int, str]], host: str) -> bool:
    """Whether the newest count of a key was made on a host."""
    return bool(keys) and keys[-1][1] == host


def executors() -> dict[str, list[psutil.Process]]:
    found: dict[str, list[psutil.Process]] = {}
    for process in psutil.process_iter(["cmdline"]):
        executor = named_in(process.info["cmdline"] or [])
        if executor is not None:
            found.setdefault(executor.host, []).append(process)
    return found


def test_a_slot_whose_executor_is_killed_gets_a_new_home(on, cluster, tmp_path):
    begin = time.time()
    pipeline = on(cluster.url, f"--checkpoint_dir={tmp_path}", *FLAGS)
    _ = (
        pipeline
        | PeriodicImpulse(begin, begin + IMPULSES * EVERY, EVERY)
        | beam.Map(lambda now: (round((now - begin) / EVERY) % KEYS, now)).with_output_types(
            tuple[int, float]
        )
        | beam.ParDo(Count())
    )
    result = pipeline.run()
    end = time.monotonic() + PATIENCE_SECONDS
    while not manifests(tmp_path, "homes"):
        assert time.monotonic() < end
        time.sleep(0.05)
    doomed = executors()[cluster.hosts[1]]
    for process in doomed:
        os.kill(process.pid, signal.SIGKILL)
    result.wait_until_finish()
    found = result.metrics().query()
    counters = {(c.key.metric.namespace, c.key.metric.name): c.committed for c in found["counters"]}
    (counts,) = [c for c in found["distributions"] if c.key.metric.name == "counts"]
    each = IMPULSES // KEYS
    assert counts.committed.max == each
    assert counts.committed.sum == KEYS * each * (each + 1) // 2
    assert sum(count for (name, _), count in counters.items() if name == "hosts") == IMPULSES
    at_home, away = (counters["sparkdrain", name] for name in (AT_HOME, AWAY))
    assert away <= 0.05 * at_home, (at_home, away)


@pytest.mark.parametrize("ahead", [False, True], ids=["at-the-standstill", "files-first"])
def test_slots_move_to_a_worker_that_joins_while_the_job_runs(on, tmp_path, monkeypatch, ahead):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    seen = tmp_path / "seen"
    seen.mkdir()
    stop_session()
    with SparkCluster(workers=1, cores=1) as growing:
        flags = [f"--checkpoint_dir={tmp_path / 'kept'}", "--recoveries=0", *FLAGS]
        flags += [f"--state_dir=${STATE}"] * ahead
        pipeline = on(growing.url, *flags)
        _ = (
            pipeline
            | PeriodicImpulse(fire_interval=EVERY)
            | beam.Map(lambda now: (round(now / EVERY) % KEYS, now)).with_output_types(
                tuple[int, float]
            )
            | beam.ParDo(Noted(str(seen)))
        )
        result = pipeline.run()
        wait_until(lambda: manifests(tmp_path / "kept", "homes"), 200, 0.1)
        new = growing.join()
        wait_until(lambda: sum(there(keys, new) for keys in noted(seen)) > 1, 200, 0.1)
        assert result.drain() in {"DRAINING", "DRAINED"}
        result.wait_until_finish()
        found = result.metrics().query()
        stop_session()
    (counts,) = [c for c in found["distributions"] if c.key.metric.name == "counts"]
    # No recovery was allowed, so each count was made once, wherever its slot was.
    for keys in noted(seen):
        assert [count for count, _ in keys] == list(range(1, len(keys) + 1))
        hosts = [host for _, host in keys]
        assert hosts == sorted(hosts), "a key that has moved stays"
    assert not all(there(keys, new) for keys in noted(seen)), "only some have moved"
    assert counts.committed.count == sum(map(len, noted(seen)))
    counters = {c.key.metric.name: c.committed for c in found["counters"]}
    print({name: counters[name] for name in (LOCAL, FETCHED, MOVED, MILLIS)})
    assert counters[MOVED] == 2
    assert (counters[LOCAL] > 0) == ahead, "what was fetched before slots moved"
