"""What has effects outside waits for a checkpoint, and not for longer."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from sparkdrain.io.stable import StableParDo
from sparkdrain.rounds.driver.durable import DurableJob
from sparkdrain.rounds.slots import service
from tests.support.at_once import AtOnce
from tests.support.in_memory_rounds import InMemoryRounds, plan_of
from tests.support.random_pipelines import count, results
from tests.support.restrictions import LeapingClock

HOUR = 3600 * 1_000_000


class Effect(beam.DoFn):
    def process(self, element):
        yield element


@pytest.fixture(autouse=True)
def _uploads_at_once(monkeypatch) -> None:
    monkeypatch.setattr(service, "Uploader", AtOnce)


def test_a_job_that_waits_for_a_checkpoint_only_makes_it_before_its_time(tmp_path) -> None:
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    numbers = pipeline | beam.Create([1, 2, 3])
    _ = numbers | StableParDo(Effect()) | beam.Map(lambda n: (n,)) | beam.Map(count)
    durable = DurableJob.at(str(tmp_path), "job", "run", {}, 2, 2)
    clock = LeapingClock()
    began = clock.now()
    rounds = InMemoryRounds(plan_of(pipeline), 2, durable=durable, interval=HOUR, clock=clock)
    try:
        rounds.run_to_end()
    finally:
        rounds.close()
        durable.settle()
    assert sum(results(rounds.schedule.reports()).values()) == 3
    assert clock.now() - began < HOUR
