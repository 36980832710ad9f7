"""Tearing a stage down waits for nothing that nobody needs."""

from __future__ import annotations

import threading

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from tests.support.in_memory_rounds import InMemoryRounds, plan_of


def test_nobody_waits_for_beams_samplers_to_look_up():
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    _ = pipeline | beam.Create([1, 2]) | beam.Reshuffle() | beam.Map(str)
    rounds = InMemoryRounds(plan_of(pipeline), slots=1)
    rounds.run_to_end()
    shards = [shard for slot in rounds.slots() for shard in slot._shards if shard.opened]
    samplers = [shard.opened.state_sampler for shard in shards]
    assert samplers
    may_end = threading.Event()
    for sampler in samplers:
        hold(sampler, may_end)
    rounds.close()
    assert not any(sampler.finished for sampler in samplers)
    may_end.set()
    for thread in threading.enumerate():
        if thread.name == "sampler-end":
            thread.join()
    assert all(sampler.finished for sampler in samplers)


def hold(sampler, may_end) -> None:
    stop = sampler.stop

    def stop_later() -> None:
        assert may_end.wait(60), "somebody waits for this"
        stop()

    sampler.stop = stop_later
