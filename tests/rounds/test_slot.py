from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing import test_stream
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from sparkdrain.errors import HostMissing
from sparkdrain.rounds.slots.slot import RoundSlot
from tests.support.in_memory_rounds import DEFAULTS, InMemoryRounds, plan_of


def test_a_slot_that_lacks_what_was_committed_does_not_begin_anew(tmp_path):
    stream = test_stream.TestStream().add_elements([TimestampedValue(("a", 1), 1)])
    stream = stream.advance_watermark_to(5).add_elements([TimestampedValue(("a", 2), 2)])
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    events = pipeline | stream.advance_watermark_to_infinity()
    windowed = events | beam.WindowInto(FixedWindows(10))
    _ = windowed | beam.GroupByKey() | beam.Map(print)
    rounds = InMemoryRounds(plan_of(pipeline), slots=1)
    tell = rounds.loop.tell

    def lose_state(schedule, reports):
        tell(schedule, reports)
        if schedule.number == 2:
            lost = rounds._slots[1, 0]
            rounds._slots[1, 0] = RoundSlot(rounds.plan, 1, 0, rounds.layout, DEFAULTS, tmp_path)
            lost.close()

    rounds.loop.tell = lose_state
    try:
        with pytest.raises(HostMissing, match="slot 0 of level 1"):
            rounds.run_to_end()
    finally:
        rounds.close()
