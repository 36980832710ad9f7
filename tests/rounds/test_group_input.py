"""A GroupByKey in rounds: what it holds back, and that each of its panes comes out once."""

from __future__ import annotations

import apache_beam as beam
from apache_beam.transforms import trigger
from apache_beam.transforms.window import FixedWindows, GlobalWindows, TimestampCombiner

from tests.support.drained import emitted_when_drained
from tests.support.recorded import emitted
from tests.support.restrictions import Count, LeapingClock
from tests.support.scripts import Mark, pairs_in_rounds


def to_all(pairs):
    made = pairs | beam.MapTuple(lambda _, number: ("all", number))
    return made | "typed again" >> beam.Map(lambda pair: pair).with_output_types(tuple[str, int])


def test_time_stands_still_at_the_earliest_element_of_an_open_window():
    make = pairs_in_rounds(
        [("a", 1, 1), ("a", 2, 7)],
        Mark(8),
        Mark(9),
        windows=FixedWindows(10),
        timestamp_combiner=TimestampCombiner.OUTPUT_AT_EARLIEST,
    )

    def build(p):
        sums = to_all(make(p) | beam.CombinePerKey(sum))
        short = sums | "short windows" >> beam.WindowInto(FixedWindows(2))
        return short | "again" >> beam.CombinePerKey(sum)

    assert emitted(build) == [("all", 3)]


def test_time_waits_in_a_drain_for_windows_that_the_budget_of_a_round_does_not_reach():
    make = pairs_in_rounds(
        [(f"{n % 3}", n, 10 * n) for n in range(9)], Mark(0), windows=FixedWindows(10)
    )

    def build(p):
        return to_all(make(p) | beam.CombinePerKey(sum)) | "again" >> beam.CombinePerKey(sum)

    before, after = emitted_when_drained(build, 2, elements=1, slots=1)
    assert before == []
    assert sorted(after) == [("all", n) for n in range(9)]


def test_panes_that_elements_complete_while_the_job_drains_come_out_once():
    def build(p):
        numbers = p | beam.Create([(0, 50)]) | beam.ParDo(Count())
        return (
            to_all(numbers | beam.Map(lambda n: ("", n)))
            | beam.WindowInto(
                GlobalWindows(),
                trigger=trigger.Repeatedly(trigger.AfterCount(1)),
                accumulation_mode=trigger.AccumulationMode.DISCARDING,
            )
            | beam.GroupByKey()
            | beam.FlatMapTuple(lambda _, values: values)
        )

    before, after = emitted_when_drained(build, 3, clock=LeapingClock(), elements=6)
    assert 0 < len(before) < 50, "the test means to cut in the middle"
    assert sorted(before + after) == list(range(50))
