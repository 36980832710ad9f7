"""What an element and a timer cost: calls of this project's functions, which no load disturbs."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import userstate
from apache_beam.utils.timestamp import Timestamp

import sparkdrain
import timers_state
from tests.support.calls import calls_of
from tests.support.in_memory_rounds import DEFAULTS, InMemoryRounds, plan_of

OURS = (
    *(str(Path(package.__file__).parent) for package in (sparkdrain, timers_state)),
    "<compiled",  # what is written for a stage
)


class Summed(beam.DoFn):
    """One value of each key."""

    SUM = userstate.ReadModifyWriteStateSpec("sum", VarIntCoder())

    def process(self, element, total=beam.DoFn.StateParam(SUM)):
        total.write((total.read() or 0) + element[1])


class Added(beam.DoFn):
    """A bag of each key."""

    ALL = userstate.BagStateSpec("all", VarIntCoder())

    def process(self, element, everything=beam.DoFn.StateParam(ALL)):
        everything.add(element[1])


class Rings(beam.DoFn):
    """A timer of each key, which fires."""

    ALARM = userstate.TimerSpec("alarm", userstate.TimeDomain.WATERMARK)

    def process(self, element, alarm=beam.DoFn.TimerParam(ALARM)):
        alarm.set(Timestamp(10))

    @userstate.on_timer(ALARM)
    def rang(self, key=beam.DoFn.KeyParam):
        yield key


class Unbounded:
    """The pace of a driver that has one round do everything."""

    seconds = 3600.0
    elements = 1 << 40

    def took(self, *_, **__):
        pass


def calls(dofn, keys):
    """How often functions of ours are called for so many keys with an element each."""
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    numbers = pipeline | beam.Create([0]) | beam.FlatMap(lambda _: range(keys))
    pairs = numbers | beam.Map(lambda number: (str(number), 1)).with_output_types(tuple[str, int])
    _ = pairs | beam.ParDo(dofn) | "Out" >> beam.Map(lambda each: each)
    rounds = InMemoryRounds(plan_of(pipeline), 1, DEFAULTS, pace=Unbounded())
    try:
        return calls_of(lambda: rounds.run_to_end(3600), OURS)
    finally:
        rounds.close()


@pytest.mark.parametrize(("dofn", "each"), [(Summed(), 8), (Added(), 13), (Rings(), 29)])
def test_a_small_key_costs_so_many_calls_and_no_more(dofn, each):
    few, many = calls(dofn, 100), calls(dofn, 300)
    assert round((many - few) / 200) == each
