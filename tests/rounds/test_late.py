"""What is dropped as late is counted once, where it was dropped, and can be asked for."""

from __future__ import annotations

import itertools

import apache_beam as beam
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing import test_stream
from apache_beam.transforms import userstate
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from sparkdrain import SparkDrainRunner
from sparkdrain.errors import TruncatedInput
from tests.support.in_memory_rounds import InMemoryRounds, plan_of
from tests.support.rounds_engine import RoundsEngine


def late(*numbers):
    """On time, then late: all in the window that ends at 10."""
    on_time = [TimestampedValue(("a", 0), 1), TimestampedValue(("b", 0), 2)]
    stream = test_stream.TestStream().add_elements(on_time).advance_watermark_to(20)
    stream = stream.add_elements([TimestampedValue(("a", n), 3) for n in numbers])
    return stream.advance_watermark_to_infinity()


class Remember(beam.DoFn):
    SEEN = userstate.BagStateSpec("seen", beam.coders.VarIntCoder())

    def process(self, pair, seen=beam.DoFn.StateParam(SEEN)):
        seen.add(pair[1])


def build(pipeline):
    pairs = (
        pipeline
        | late(1, 2, 3)
        | beam.Map(lambda pair: pair).with_output_types(tuple[str, int])
        | beam.WindowInto(FixedWindows(10))
    )
    _ = pairs | "Group" >> beam.GroupByKey() | beam.Map(str)
    _ = pairs | "Remember" >> beam.ParDo(Remember())
    # All three are one by then.
    _ = pairs | "Sum" >> beam.CombinePerKey(sum)
    main = pairs | "Shift" >> beam.WindowInto(FixedWindows(5))
    _ = main | "Beside" >> beam.Map(lambda pair, side: (pair, side), beam.pvalue.AsList(pairs))


def fails_at(*numbers):
    """Undoes each of these attempts, when one slot has run."""
    attempts = itertools.count()

    def fail(header):
        if header.slot == 1 and next(attempts) in numbers:
            message = "lost"
            raise TruncatedInput(message)

    return fail


def fails_once_in_each_round():
    """Undoes each round once for each level, when one slot has run."""
    undone = set()

    def fail(header):
        where = header.number, header.level
        if header.slot == 1 and where not in undone:
            undone.add(where)
            message = "lost"
            raise TruncatedInput(message)

    return fail


@pytest.mark.parametrize("fail", [fails_at(), fails_once_in_each_round()], ids=["none", "each"])
def test_every_step_counts_what_it_dropped_once(in_process, fail):
    in_process(RoundsEngine(fail=fail, attempts=9))
    options = PipelineOptions(["--streaming", "--allow_unsafe_triggers"])
    pipeline = beam.Pipeline(SparkDrainRunner(), options)
    build(pipeline)
    result = pipeline.run()
    result.wait_until_finish()
    found = result.metrics().query(MetricsFilter().with_name("droppedDueToLateness"))["counters"]
    counted = {counter.key.step: counter.committed for counter in found}
    assert counted == {"Group": 3, "Remember": 3, "Sum/Group": 1, "Beside": 6}


@pytest.mark.parametrize("undone", [(), (2, 3, 5, 8, 9)])
def test_slots_report_all_that_they_dropped_in_all_rounds(undone):
    """The progress line adds up what they reported last."""
    pipeline = beam.Pipeline(options=PipelineOptions(["--streaming"]))
    stream = test_stream.TestStream().advance_watermark_to(20)
    for number in range(4):
        stream = stream.add_elements([TimestampedValue(("a", number), 3)])
    pairs = pipeline | stream.advance_watermark_to_infinity()
    typed = pairs | beam.Map(lambda pair: pair).with_output_types(tuple[str, int])
    _ = typed | beam.WindowInto(FixedWindows(10)) | beam.GroupByKey() | beam.Map(str)
    rounds = InMemoryRounds(plan_of(pipeline), 2, fail=fails_at(*undone), attempts=9)
    try:
        rounds.run_to_end()
    finally:
        rounds.close()
    assert sum(report.dropped for report in rounds.schedule.reports()) == 4
