"""A slot that takes too long while the job is drained, in rounds in this process."""

from __future__ import annotations

import time

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.transforms import userstate

from sparkdrain.drain.limits import Limits
from sparkdrain.errors import DrainLimitExceeded
from tests.support.drained import emitted_when_drained
from tests.support.restrictions import Count

FAR = 20


class Slow(beam.DoFn):
    """Takes its time for elements that come while the job is drained."""

    SEEN = userstate.BagStateSpec("seen", VarIntCoder())

    def process(self, pair, seen=beam.DoFn.StateParam(SEEN)):
        seen.add(pair[1])
        if pair[1] > FAR:
            time.sleep(1.0)
        yield pair


def build(pipeline):
    read = pipeline | beam.Create([(0, 60)], reshuffle=False) | beam.ParDo(Count())
    pairs = read | beam.Map(lambda n: (n % 3, n)).with_output_types(tuple[int, int])
    return pairs | beam.ParDo(Slow())


def drained(limits):
    def begin(rounds):
        rounds.loop.drain.limits = limits

    emitted_when_drained(build, 2, begin=begin, slots=1, elements=4)


def test_a_slot_that_takes_too_long_with_its_elements_fails():
    with pytest.raises(DrainLimitExceeded, match="--drain_element_limit_ms"):
        drained(Limits(element=0.2))
