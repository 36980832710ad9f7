"""A streaming job that loses processes or its driver, or is another one: on a real Spark."""

from __future__ import annotations

import os
import shutil
import signal
import time
from functools import partial
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.userstate import CombiningValueStateSpec
from pyspark import SparkContext

from sparkdrain import SparkDrainRunner
from sparkdrain.errors import CheckpointRefused
from tests.support import needy_file_system
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

SECONDS = 120
ENDS = "DONE", "FAILED"
EVERY = 0.05


class Count(beam.DoFn):
    """Counts its elements, in state that is as good as the last checkpoint."""

    COUNT = CombiningValueStateSpec("count", VarIntCoder(), sum)

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def setup(self) -> None:
        self._path = self._folder / str(os.getpid())
        self._path.touch()

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        count.add(1)
        with self._path.open("ab") as file:
            file.write(b".")
        Metrics.counter("live", "seen").inc()
        yield count.read()


def count(folder: Path, impulses: int, begin: float, *more: str, name: str = "Count"):
    pids = folder / "pids"
    pids.mkdir(exist_ok=True)
    options = PipelineOptions(
        [
            "--spark_master_url=local[2]",
            "--progress=off",
            f"--checkpoint_dir={folder}/checkpoints",
            "--checkpoint_ms=300",
            "--job_name=counting",
            *more,
        ]
    )
    pipeline = beam.Pipeline(SparkDrainRunner(), options=options)
    _ = (
        pipeline
        | PeriodicImpulse(begin, begin + impulses * EVERY, EVERY)
        | "Key" >> beam.Map(lambda now: (round((now - begin) / EVERY) % 3, now))
        | name >> beam.ParDo(Count(str(pids)))
        | "Most" >> beam.Map(lambda count: Metrics.distribution("live", "counts").update(count))
    )
    return pipeline.run()


wait_for = partial(wait_until, seconds=SECONDS, pause=0.05)


def checkpoints(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("checkpoints/counting/manifests/*/*.manifest"))


def seen(folder: Path) -> int:
    """How many elements came so far, those included that came again."""
    return sum(path.stat().st_size for path in (folder / "pids").iterdir())


def assert_counted_once(result, impulses: int | None = None) -> None:
    """That each of so many impulses was counted, or each of those that came."""
    found = result.metrics().query()
    (came,) = [c.committed for c in found["counters"] if c.key.metric.name == "seen"]
    assert impulses in (None, came)
    (counts,) = [c.committed for c in found["distributions"] if c.key.metric.name == "counts"]
    of_keys = [(came + 2 - key) // 3 for key in range(3)]
    assert counts.max == max(of_keys)
    assert counts.sum == sum(count * (count + 1) // 2 for count in of_keys)


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
