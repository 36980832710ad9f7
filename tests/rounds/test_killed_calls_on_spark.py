"""A process of a job is killed with calls in flight: on a real Spark."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import TYPE_CHECKING

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse

import sparkdrain
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

IMPULSES = 30
EVERY = 0.1
HANGS = 10
"""The impulse whose first call hangs."""


class Ask(beam.DoFn):
    """Leaves a file for each call, named by the process that made it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def process(self, number):
        calls = list(self._folder.glob(f"{number}-*"))
        (self._folder / f"{number}-{os.getpid()}").touch()
        if number == HANGS and not calls:
            await asyncio.sleep(60)
        yield number


def tell(number):
    Metrics.counter("live", "came").inc()
    Metrics.distribution("live", "numbers").update(number)


@pytest.mark.slow
def test_calls_in_flight_are_made_again_when_their_process_is_killed(tmp_path):
    calls = tmp_path / "calls"
    calls.mkdir()
    begin = time.time()
    options = PipelineOptions(
        [
            "--runner=sparkdrain.SparkDrainRunner",
            "--spark_master_url=local[2]",
            "--progress=off",
            f"--checkpoint_dir={tmp_path}/checkpoints",
            "--checkpoint_ms=200",
            "--job_name=calling",
        ]
    )
    pipeline = beam.Pipeline(options=options)
    _ = (
        pipeline
        | PeriodicImpulse(begin, begin + IMPULSES * EVERY, EVERY)
        | beam.Map(lambda now: round((now - begin) / EVERY))
        | beam.ParDo(sparkdrain.Concurrently(Ask(calls), carry_over=True))
        | beam.Map(tell)
    )
    result = pipeline.run()
    # Behind it others come, and checkpoints have it as input that was not processed.
    wait_until(lambda: list(calls.glob(f"{HANGS + 8}-*")), seconds=60, pause=0.02)
    (hanging,) = calls.glob(f"{HANGS}-*")
    _, pid = hanging.name.split("-")
    os.kill(int(pid), signal.SIGKILL)
    result.wait_until_finish()
    assert len(list(calls.glob(f"{HANGS}-*"))) == 2
    found = result.metrics().query()
    (came,) = [c.committed for c in found["counters"] if c.key.metric.name == "came"]
    (numbers,) = [c.committed for c in found["distributions"] if c.key.metric.name == "numbers"]
    assert (came, numbers.sum) == (IMPULSES, sum(range(IMPULSES)))
