"""A process of a job is killed with calls in flight: on a real Spark."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import TYPE_CHECKING

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import userstate
from apache_beam.transforms.periodicsequence import PeriodicImpulse

import sparkdrain
from tests.support.manifests import manifests
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


KEYS = 3


class Remember(Ask):
    """Also counts the elements of each key, before its call and after that."""

    BEGUN = userstate.CombiningValueStateSpec("begun", VarIntCoder(), sum)
    ENDED = userstate.BagStateSpec("ended", VarIntCoder())
    END = userstate.TimerSpec("end", userstate.TimeDomain.WATERMARK)

    async def process(
        self,
        element,
        begun=beam.DoFn.StateParam(BEGUN),
        ended=beam.DoFn.StateParam(ENDED),
        end=beam.DoFn.TimerParam(END),
    ):
        _, number = element
        begun.add(1)
        end.set(time.time() + 3600)  # when time is at its end
        async for each in super().process(number):
            yield each
        ended.add(number)
        assert begun.read() == len(list(ended.read()))

    @userstate.on_timer(END)
    def sum_up(self, begun=beam.DoFn.StateParam(BEGUN), ended=beam.DoFn.StateParam(ENDED)):
        Metrics.distribution("live", "begun").update(begun.read())
        Metrics.distribution("live", "ended").update(sum(ended.read()))


def asked(calls):
    return beam.ParDo(sparkdrain.Concurrently(Ask(calls), carry_over=True))


class Remembered(beam.PTransform):
    def __init__(self, calls):
        super().__init__()
        self._dofn = sparkdrain.Concurrently(Remember(calls), carry_over=True)

    def expand(self, numbers):
        return numbers | beam.Map(lambda number: (number % KEYS, number)) | beam.ParDo(self._dofn)


def tell(number):
    Metrics.counter("live", "came").inc()
    Metrics.distribution("live", "numbers").update(number)


@pytest.mark.slow
@pytest.mark.parametrize("step", [asked, Remembered])
def test_calls_in_flight_are_made_again_when_their_process_is_killed(tmp_path, step):
    calls = tmp_path / "calls"
    calls.mkdir()
    begin = time.time() + 10  # when the job has begun, unless the machine is very busy
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
        | step(calls)
        | beam.Map(tell)
    )
    result = pipeline.run()
    # Behind it others come, and checkpoints have it as input that was not processed.
    wait_until(lambda: list(calls.glob(f"{HANGS}-*")), seconds=60, pause=0.02)
    kept = lambda: set(manifests(tmp_path / "checkpoints", "calling"))
    before = kept()
    wait_until(lambda: list(calls.glob(f"{HANGS + 8}-*")), seconds=60, pause=0.02)
    last = IMPULSES - 1
    wait_until(
        lambda: len(kept() - before) > (0 if list(calls.glob(f"{last}-*")) else 1),
        seconds=60,
        pause=0.02,
    )
    (hanging,) = calls.glob(f"{HANGS}-*")
    _, pid = hanging.name.split("-")
    os.kill(int(pid), signal.SIGKILL)
    result.wait_until_finish()
    assert len(list(calls.glob(f"{HANGS}-*"))) == 2
    found = result.metrics().query()
    (came,) = [c.committed for c in found["counters"] if c.key.metric.name == "came"]
    told = {c.key.metric.name: c.committed for c in found["distributions"]}
    assert (came, told.pop("numbers").sum) == (IMPULSES, sum(range(IMPULSES)))
    if step is Remembered:
        begun, ended = told.pop("begun"), told.pop("ended")
        assert (begun.count, begun.min, begun.max) == (KEYS, IMPULSES // KEYS, IMPULSES // KEYS)
        assert (ended.count, ended.sum) == (KEYS, sum(range(IMPULSES)))
