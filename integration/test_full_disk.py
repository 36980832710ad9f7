"""A streaming job whose disk is full stops and says so; with more room it goes on, and is exact."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import apache_beam as beam
import pytest
from apache_beam.coders import BytesCoder, VarIntCoder
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.userstate import BagStateSpec, CombiningValueStateSpec
from driver_session import stop_session

from sparkdrain.errors import SparkDrainError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0, reason="only root may mount a small disk"
    ),
]

# As in a main program: executors cannot import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

EVERY = 0.02
IMPULSES = 120
BALLAST = 256 << 10


# Takes the disk away when the other end of its standard input is closed, be it on purpose or
# because the test was killed. Lazily: a process that has a file open there keeps nobody waiting.
GUARD = """
mount -t tmpfs -o size=$2 tmpfs "$1" 2>&1 || exit
echo mounted
cat
umount --lazy "$1"
"""


class SmallDisk:
    """A disk of its own."""

    def __init__(self, path: Path, size: str) -> None:
        self.path = path
        path.mkdir()
        self._guard = subprocess.Popen(
            ["sh", "-c", GUARD, "sh", path, size],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        said = self._guard.stdout.readline().strip()
        if said != "mounted":
            self.let_go()
            pytest.skip(f"no small disk here: {said}")

    def resize(self, size: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", self.path], check=True)

    def let_go(self) -> None:
        self._guard.communicate()


@pytest.fixture
def small_disk(tmp_path):
    disk = SmallDisk(tmp_path / "small", "16m")
    yield disk
    stop_session()
    disk.let_go()


class Hoard(beam.DoFn):
    """Counts, and keeps a lot that cannot be compressed."""

    COUNT = CombiningValueStateSpec("count", VarIntCoder(), sum)
    KEPT = BagStateSpec("kept", BytesCoder())

    def process(
        self,
        element,
        count=beam.DoFn.StateParam(COUNT),
        kept=beam.DoFn.StateParam(KEPT),
    ):
        count.add(1)
        kept.add(random.randbytes(BALLAST))
        Metrics.counter("full", "seen").inc()
        yield count.read()


def hoard(on, begin, checkpoints, local, *flags):
    pipeline = on(
        "local[2]",
        f"--spark_conf=spark.local.dir={local}",
        f"--checkpoint_dir={checkpoints}",
        "--checkpoint_ms=500",
        "--state_memory_mb=2",
        "--job_name=hoarding",
        *flags,
    )
    _ = (
        pipeline
        | PeriodicImpulse(begin, begin + IMPULSES * EVERY, EVERY)
        | beam.Map(lambda now: (round((now - begin) / EVERY) % 3, now)).with_output_types(
            tuple[int, float]
        )
        | beam.ParDo(Hoard())
        | beam.Map(lambda count: Metrics.distribution("full", "counts").update(count))
    )
    return pipeline.run()


def assert_exact(result) -> None:
    (seen,) = result.metrics().query(MetricsFilter().with_name("seen"))["counters"]
    assert seen.committed == IMPULSES
    (counts,) = result.metrics().query(MetricsFilter().with_name("counts"))["distributions"]
    each = IMPULSES // 3
    assert counts.committed.max == each
    assert counts.committed.sum == 3 * each * (each + 1) // 2


@pytest.mark.parametrize("full", ["checkpoints", "state"])
def test_a_full_disk_stops_the_job_and_with_more_room_it_goes_on_exactly(
    on, small_disk, tmp_path, full
):
    places = {"checkpoints": tmp_path / "checkpoints", "state": tmp_path / "local"}
    places[full] = small_disk.path / full
    option = {"checkpoints": "--checkpoint_dir", "state": "spark.local.dir"}[full]
    # Of a fraction of a second, an impulse more may be left by how floats are rounded.
    began = round(time.time())
    with pytest.raises(SparkDrainError) as error:
        hoard(on, began, places["checkpoints"], places["state"]).wait_until_finish()
    said = str(error.value)
    print(said)
    assert "No space left on device" in said
    assert str(small_disk.path) in said
    assert option in said

    small_disk.resize("512m")
    result = hoard(on, began, places["checkpoints"], places["state"], "--resume")
    result.wait_until_finish()
    assert_exact(result)


def test_a_disk_that_spark_fills_is_named(on, small_disk):
    """Spark's own message has no path."""
    pipeline = on("local[2]", f"--spark_conf=spark.local.dir={small_disk.path}")
    _ = (
        pipeline
        | beam.Create(range(100))
        | beam.Map(lambda number: (number, random.randbytes(BALLAST)))
        | beam.GroupByKey()
        | beam.Map(print)
    )
    with pytest.raises(SparkDrainError) as error:
        pipeline.run().wait_until_finish()
    assert str(error.value).startswith(f"A disk is full ({small_disk.path}")
