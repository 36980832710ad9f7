from __future__ import annotations

from collections import Counter
from typing import ClassVar

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing import test_stream
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from sparkdrain.errors import HostMissing
from sparkdrain.rounds.slots.slot import RoundSlot
from sparkdrain.shuffle.blocks import Block, decode
from tests.support.in_memory_rounds import DEFAULTS, InMemoryRounds, plan_of
from tests.support.recorded import emitted
from tests.support.scripts import pairs_in_rounds
from timers_state.errors import StoreClosed


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


class Life(beam.DoFn):
    """Counts how often it was set up and torn down."""

    counted: ClassVar[Counter] = Counter()

    def setup(self):
        self.counted["set up"] += 1

    def teardown(self):
        self.counted["torn down"] += 1

    def process(self, pair):
        yield pair


PAIRS = pairs_in_rounds([("a", 1, 1), ("b", 5, 2)], [("a", 2, 2)], windows=FixedWindows(10))


def sums(pipeline):
    return PAIRS(pipeline) | beam.CombinePerKey(sum) | beam.ParDo(Life())


def test_a_round_that_lost_a_block_on_its_way_is_run_again_and_makes_the_same():
    """Spark may hand a task an input that just ends: the end messages tell what is missing."""
    lost = []

    def lose(rounds):
        def fail(header):
            for records in rounds.partitions.get(0, {}).values():
                for record in records:
                    if header.level == 1 and not lost and isinstance(decode(record), Block):
                        lost.append(record)
                        records.remove(record)
                        return

        rounds.fail = fail

    assert sorted(emitted(sums, begin=lose)) == [("a", 3), ("b", 5)]
    assert lost


def test_dofns_are_torn_down_when_their_slots_are_closed():
    Life.counted.clear()
    emitted(sums)
    assert Life.counted["set up"] == Life.counted["torn down"] > 0


def test_slots_that_are_closed_leave_no_state():
    left = []
    emitted(sums, begin=left.append, slots=1)
    assert not left[0].directory.exists()
    for slot in left[0].slots():
        with pytest.raises(StoreClosed):
            slot.overlay.store.get(b"key")
