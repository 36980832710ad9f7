"""Drain: what Beam's own transforms keep comes out, and a drain that cannot end says so."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.transforms import trigger, userstate
from apache_beam.transforms.deduplicate import Deduplicate
from apache_beam.transforms.window import FixedWindows, GlobalWindows

from sparkdrain.errors import DrainStuck
from sparkdrain.rounds.keyed.input import KeyedInput
from tests.support.drained import emitted_when_drained
from tests.support.scripts import Mark, Pass, pairs_in_rounds


class Named(beam.PTransform):
    def __init__(self, function):
        super().__init__()
        self._function = function

    def expand(self, pipeline):
        return self._function(pipeline)


def test_batches_that_are_not_full_come_out():
    make = pairs_in_rounds([("a", n, 1) for n in range(7)] + [("b", 9, 1)], windows=GlobalWindows())

    def build(p):
        batches = make(p) | beam.GroupIntoBatches(5, max_buffering_duration_secs=3600)
        return batches | beam.MapTuple(lambda key, numbers: (key, sorted(numbers)))

    before, after = emitted_when_drained(build, 2)
    assert sorted(len(numbers) for _, numbers in before) == [5]
    assert sorted((key, len(numbers)) for key, numbers in after) == [("a", 2), ("b", 1)]


def test_a_second_of_a_kind_is_still_left_out():
    make = pairs_in_rounds([("a", 1, 1)], [("a", 1, 2), ("b", 1, 2)], Mark(3))

    def build(p):
        return make(p) | Deduplicate(processing_time_duration=3600)

    before, after = emitted_when_drained(build, 3)
    assert sorted(before + after) == [("a", 1), ("b", 1)]


def test_panes_by_the_clock_and_of_many_elements_come_out_in_the_global_window():
    for firing in (
        trigger.Repeatedly(trigger.AfterProcessingTime(3600)),
        trigger.Repeatedly(trigger.AfterCount(100)),
    ):
        make = pairs_in_rounds(
            [("a", 1, 1), ("a", 2, 2)],
            Pass(10),
            windows=GlobalWindows(),
            trigger=firing,
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        )
        before, after = emitted_when_drained(lambda p, m=make: m(p) | beam.CombinePerKey(sum), 3)
        assert (before, after) == ([], [("a", 3)])


def test_a_side_input_that_changes_slowly_is_drained_and_waited_for():
    # The first is played first: it waits for the second.
    main = pairs_in_rounds([("a", 1, 1)], [("b", 2, 2)])
    side = pairs_in_rounds(
        [("x", 7, 1)],
        windows=GlobalWindows(),
        trigger=trigger.Repeatedly(trigger.AfterCount(5)),
        accumulation_mode=trigger.AccumulationMode.DISCARDING,
    )

    def build(p):
        pairs = main(p)
        other = beam.pvalue.AsList(p | "side" >> Named(side))
        return pairs | beam.Map(lambda pair, xs: (pair[0], sum(x[1] for x in xs)), xs=other)

    before, after = emitted_when_drained(build, 5)
    assert before == []
    assert sorted(after) == [("a", 7), ("b", 7)]


def test_wait_on_is_over_when_what_it_waits_for_is():
    signal = pairs_in_rounds([("s", 1, 1)], windows=FixedWindows(10))
    main = pairs_in_rounds([("a", 1, 1)], [("b", 2, 2)], windows=FixedWindows(10))

    def build(p):
        waited = main(p)
        return waited | beam.transforms.util.WaitOn(p | "signal" >> Named(signal))

    before, after = emitted_when_drained(build, 4)
    assert before == []
    assert sorted(after) == [("a", 1), ("b", 2)]


class Holds(beam.DoFn):
    """Leaves a hold behind that nobody will ever take away."""

    CLOCK = userstate.TimerSpec("clock", userstate.TimeDomain.REAL_TIME)

    def process(self, element, clock=beam.DoFn.TimerParam(CLOCK)):
        clock.set(10**6)

    @userstate.on_timer(CLOCK)
    def rang(self):
        pass


def test_a_hold_that_never_goes_away_is_an_error_that_names_it(monkeypatch):
    hold = KeyedInput.hold
    monkeypatch.setattr(KeyedInput, "hold", lambda self: min(hold(self), 5_000_000))
    make = pairs_in_rounds([("a", 1, 1)], Mark(3), windows=GlobalWindows())
    with pytest.raises(DrainStuck, match=r"'ParDo\(Holds\)' by timers at 1970-01-01 00:00:05"):
        emitted_when_drained(lambda p: make(p) | beam.ParDo(Holds()), 3)
