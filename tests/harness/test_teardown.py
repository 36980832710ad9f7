"""Tearing a stage down waits for nothing that nobody needs."""

from __future__ import annotations

import threading

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from tests.support.in_memory_rounds import InMemoryRounds, plan_of


def test_nobody_waits_for_beams_samplers_to_look_up_and_yet_they_end(monkeypatch):
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    _ = pipeline | beam.Create([1, 2]) | beam.Reshuffle() | beam.Map(str)
    rounds = InMemoryRounds(plan_of(pipeline), slots=1)
    before = set(threading.enumerate())
    rounds.run_to_end()
    shards = [shard for slot in rounds.slots() for shard in slot._slot.shards if shard.opened]
    samplers = [shard.opened.state_sampler for shard in shards]
    threads = set(threading.enumerate()) - before
    assert len(threads) >= len(samplers) > 1
    for sampler in samplers:
        # What Beam has for it waits.
        monkeypatch.setattr(sampler, "stop", lambda: pytest.fail("somebody waits"))
    rounds.close()
    for thread in threads:
        thread.join(20)
    assert not [thread for thread in threads if thread.is_alive()]
