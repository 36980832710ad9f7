"""Splittable DoFns of streams in a harness of a pool, and their drain."""

from __future__ import annotations

import threading
import time
from collections import Counter
from functools import partial

import apache_beam as beam
import pytest
from apache_beam.transforms import environments, userstate, window

from sparkdrain.fnapi.errors import HarnessFailed
from sparkdrain.notes import notes_of
from tests.support.drained import drain_after
from tests.support.endless import Endless, numbers
from tests.support.restrictions import Count, LeapingClock, Poll, Whole

SEEN: list = []


@pytest.fixture
def run(stream):
    def run(build, *more, **settings):
        SEEN.clear()
        return stream(build, *more, **settings)

    return run


def _see(element):
    assert threading.current_thread() is not threading.main_thread()
    SEEN.append(element)


class _Slow(Count):
    """Takes its time for each number."""

    def process(self, element, tracker=Count.process.__defaults__[0]):
        for number in super().process(element, tracker):
            time.sleep(0.005)
            yield number


def test_a_long_restriction_is_interrupted_and_goes_on_in_later_rounds(run):
    def build(pipeline):
        ranges = pipeline | beam.Create([(0, 100), (100, 200)])
        return ranges | beam.ParDo(_Slow()) | beam.Map(_see)

    rounds = run(build, slots=1)
    assert sorted(SEEN) == list(range(200))
    assert len(rounds.rounds) > 4


class _SlowAndWhole(_Slow):
    def process(self, element, tracker=beam.DoFn.RestrictionParam(Whole())):
        return super().process(element, tracker)


def test_an_error_of_the_users_tracker_ends_a_stream_that_needs_a_split(run):
    """Else the round of a restriction without an end would last for ever, and nobody knew why."""
    with pytest.raises(HarnessFailed, match=r"0\.0") as raised:
        run(lambda p: p | beam.Create([(0, 600)]) | beam.ParDo(_SlowAndWhole()), slots=1)
    assert type(raised.value).__name__ == "KeyError"
    (note,) = notes_of(raised.value)
    assert note == "A restriction of 'ParDo(_SlowAndWhole)/Process' was to be split."


def test_what_a_dofn_puts_off_goes_on_after_its_delay_and_its_watermark_closes_windows(run):
    def build(pipeline):
        polled = pipeline | beam.Create([(0, 12, 60)]) | beam.ParDo(Poll())
        polled | "See" >> beam.Map(_see)
        windows = polled | beam.WindowInto(window.FixedWindows(5))
        keyed = windows | beam.Map(lambda number: ("all", number)) | beam.GroupByKey()
        return keyed | beam.MapTuple(lambda _, found: sorted(found)) | beam.Map(_see)

    rounds = run(build, clock=LeapingClock(), slots=1)
    assert [seen for seen in SEEN if type(seen) is list] == [
        [0, 1, 2, 3, 4],
        [5, 6, 7, 8, 9],
        [10, 11],
    ]
    # A window does not wait for the end of the restriction.
    assert SEEN.index([0, 1, 2, 3, 4]) < SEEN.index(10)
    assert len(rounds.rounds) >= 12


class _Sums(beam.DoFn):
    """Counts what a source has given; tells it at the end of time."""

    COUNT = userstate.CombiningValueStateSpec("count", sum)
    END = userstate.TimerSpec("end", userstate.TimeDomain.WATERMARK)

    def process(self, pair, count=beam.DoFn.StateParam(COUNT), end=beam.DoFn.TimerParam(END)):
        count.add(1)
        end.set(10**9)
        yield pair

    @userstate.on_timer(END)
    def on_end(self, key=beam.DoFn.KeyParam, count=beam.DoFn.StateParam(COUNT)):
        yield key, -count.read()


def test_a_drained_stream_ends_with_all_of_its_timers_and_windows(run):
    def build(pipeline):
        made = numbers("a", "b")(pipeline)
        counted = made | beam.ParDo(_Sums())
        return counted | beam.Map(_see)

    rounds = run(build, partial(drain_after, 4), clock=LeapingClock())
    assert rounds.schedule.is_drained()
    for source in "ab":
        own = [number for name, number in SEEN if name == source]
        (total,) = [number for number in own if number < 0]
        assert sorted(number for number in own if number >= 0) == list(range(-total))


class _Kept(Endless):
    """A drain leaves the next five numbers."""

    def truncate(self, element, restriction):
        del element
        return type(restriction)(restriction.start, restriction.start + 5)


class _Finishes(beam.DoFn):
    @beam.DoFn.unbounded_per_element()
    def process(self, element, tracker=beam.DoFn.RestrictionParam(_Kept())):
        number = tracker.current_restriction().start
        while tracker.try_claim(number):
            yield number
            number += 1
            if number % 5 == 0:
                tracker.defer_remainder()
                return


def test_a_dofn_says_what_a_drain_leaves_of_its_restriction(run):
    def build(pipeline):
        return pipeline | beam.Create([(0, 10**9)]) | beam.ParDo(_Finishes()) | beam.Map(_see)

    left = []

    def begin(rounds):
        drain_after(3, rounds)
        tell = rounds.loop.tell

        def look(schedule, reports):
            if not left and schedule.number >= 3:
                left.append(len(SEEN))
            tell(schedule, reports)

        rounds.loop.tell = look

    run(build, begin, clock=LeapingClock(), slots=1)
    assert Counter(SEEN) == Counter(range(len(SEEN)))
    assert len(SEEN) == left[0] + 5


def test_of_an_sdk_that_cannot_truncate_a_drain_keeps_nothing_unbounded(run):
    able = [name for name in environments.python_sdk_capabilities() if "truncate" not in name]

    def build(pipeline):
        return pipeline | beam.Create([(0, 10**9)]) | beam.ParDo(_Finishes()) | beam.Map(_see)

    run(build, partial(drain_after, 3), capabilities=able, clock=LeapingClock(), slots=1)
    assert Counter(SEEN) == Counter(range(len(SEEN)))
    assert len(SEEN) % 5 == 0


def test_an_error_amid_a_restriction_is_raised(run):
    def build(pipeline):
        bad = pipeline | beam.Create([(0, 3)]) | "Divide" >> beam.ParDo(_Divides())
        return bad | beam.Map(_see)

    with pytest.raises(RuntimeError, match="by zero"):
        run(build)


class _Divides(Count):
    def process(self, element, tracker=Count.process.__defaults__[0]):
        for number in super().process(element, tracker):
            yield 1 // (2 - number)
