"""A streaming job that counts impulses, and makes checkpoints in a folder; for a real Spark."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.userstate import CombiningValueStateSpec

from sparkdrain import SparkDrainRunner
from tests.support.manifests import manifests
from tests.support.waiting import wait_until

SECONDS = 120
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
    return sorted(path.name for path in manifests(folder / "checkpoints", "counting"))


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
