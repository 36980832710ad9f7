"""A streaming job as a user has it: on a real Spark, with host processes."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineState
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import FixedWindows

from sparkdrain import SparkDrainRunner
from sparkdrain.errors import HostMissing, UserCodeError, WorkerLost
from tests.support.restrictions import Ranges
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

SECONDS = 90


class Leaves(beam.DoFn):
    """Leaves a file named by its process while it lives."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def setup(self) -> None:
        (self._folder / str(os.getpid())).touch()

    def process(self, element):
        Metrics.counter("live", "seen").inc()
        yield element

    def teardown(self) -> None:
        (self._folder / str(os.getpid())).unlink()


def endless(pipeline: beam.Pipeline, folder: Path) -> None:
    _ = (
        pipeline
        | PeriodicImpulse(fire_interval=0.05)
        | beam.WindowInto(FixedWindows(1))
        | beam.Map(lambda time: (0, time))
        | beam.GroupByKey()
        | beam.ParDo(Leaves(str(folder)))
    )


def start(build, *arguments):
    options = PipelineOptions(["--spark_master_url=local[2]", "--progress=off"])
    pipeline = beam.Pipeline(SparkDrainRunner(), options=options)
    build(pipeline, *arguments)
    return pipeline.run()


wait_for = partial(wait_until, seconds=SECONDS, pause=0.05)


def seen(result) -> int:
    found = result.metrics().query(MetricsFilter().with_name("seen"))["counters"]
    return sum(counter.committed for counter in found)


def test_metrics_can_be_asked_for_while_it_runs_and_cancelling_tears_everything_down(tmp_path):
    result = start(endless, tmp_path)
    wait_for(lambda: seen(result) > 0)
    assert list(tmp_path.iterdir())
    result.cancel()
    with pytest.raises(RuntimeError, match="CANCELLED"):
        result.wait_until_finish()
    assert result.state == PipelineState.CANCELLED
    assert list(tmp_path.iterdir()) == []


class Hangs(beam.DoFn):
    """Never comes back, and claims nothing."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    @beam.DoFn.unbounded_per_element()
    def process(self, element, tracker=beam.DoFn.RestrictionParam(Ranges())):
        (self._folder / str(os.getpid())).touch()
        while True:
            time.sleep(0.05)
        yield element


def test_a_restriction_that_never_ends_its_bundle_can_be_cancelled(tmp_path):
    result = start(lambda p: p | beam.Create([(0, 1)]) | beam.ParDo(Hangs(str(tmp_path))))
    wait_for(lambda: list(tmp_path.iterdir()))
    (pid,) = (int(path.name) for path in tmp_path.iterdir())
    result.cancel()
    with pytest.raises(RuntimeError, match="CANCELLED"):
        result.wait_until_finish()
    wait_for(lambda: not Path(f"/proc/{pid}").exists())


def test_a_host_that_is_lost_fails_the_job_and_is_named(tmp_path):
    result = start(endless, tmp_path)
    wait_for(lambda: list(tmp_path.iterdir()))
    (pid,) = (int(path.name) for path in tmp_path.iterdir())
    os.kill(pid, signal.SIGKILL)
    with pytest.raises((HostMissing, WorkerLost), match=str(pid)) as lost:
        result.wait_until_finish()
    assert "With --checkpoint_dir it would go on." in str(lost.value)


def test_an_error_of_a_user_ends_it_and_comes_first(tmp_path):
    def refuse(time):
        message = f"no {time > 0}"
        raise ValueError(message)

    def build(pipeline):
        _ = pipeline | PeriodicImpulse(fire_interval=0.05) | "Refuse" >> beam.Map(refuse)

    with pytest.raises(UserCodeError) as caught:
        start(build).wait_until_finish()
    assert str(caught.value).startswith("ValueError: no True [while running 'Refuse']")
