"""What is due in a turn: which timers fire, in which order, and how many of them in a round."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.coders import StrUtf8Coder
from apache_beam.transforms import userstate
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.timestamp import Timestamp

from tests.support.drained import drain_after, emitted_when_drained
from tests.support.endless import numbers
from tests.support.recorded import emitted, emitted_in_rounds
from tests.support.restrictions import START, ImpatientClock
from tests.support.scripts import pairs_in_rounds

EVENT, PROCESSING = userstate.TimeDomain.WATERMARK, userstate.TimeDomain.REAL_TIME


class InAnHour(beam.DoFn):
    """Sets one timer of processing time for each key, an hour after the job began."""

    CLOCK = userstate.TimerSpec("clock", PROCESSING)

    def process(self, element, clock=beam.DoFn.TimerParam(CLOCK)):
        clock.set(Timestamp(START + 3600))

    @userstate.on_timer(CLOCK)
    def rang(self, key=beam.DoFn.KeyParam):
        yield key


def test_timers_of_the_clock_fire_when_input_ends_and_the_job_does_not_wait_for_their_time():
    def build(p):
        pairs = p | beam.Create([("a", 1), ("b", 2)]).with_output_types(tuple[str, int])
        return pairs | beam.ParDo(InAnHour())

    assert sorted(emitted(build, clock=ImpatientClock())) == ["a", "b"]


def test_timers_of_the_clock_fire_in_a_drain_and_the_job_does_not_wait_for_their_time():
    def build(p):
        return numbers("a", "b")(p) | beam.ParDo(InAnHour())

    before, after = emitted_when_drained(build, 3, clock=ImpatientClock())
    assert before == []
    assert sorted(after) == ["a", "b"]


class BothClocks(beam.DoFn):
    """Key "a" has a timer of each kind, every other key has one of event time."""

    THEN = userstate.TimerSpec("then", EVENT)
    CLOCK = userstate.TimerSpec("clock", PROCESSING)

    def process(self, element, then=beam.DoFn.TimerParam(THEN), clock=beam.DoFn.TimerParam(CLOCK)):
        then.set(Timestamp(element[1]))
        if element[0] == "a":
            clock.set(Timestamp(70))

    @userstate.on_timer(THEN)
    def ended(self, key=beam.DoFn.KeyParam):
        yield key, "then"

    @userstate.on_timer(CLOCK)
    def rang(self, key=beam.DoFn.KeyParam):
        yield key, "clock"


class BothClocksOfBeam(BothClocks):
    """The same with calls of Beam's."""

    def process(
        self,
        element,
        _=beam.DoFn.WindowedValueParam,
        then=beam.DoFn.TimerParam(BothClocks.THEN),
        clock=beam.DoFn.TimerParam(BothClocks.CLOCK),
    ):
        super().process(element, then, clock)


class BothClocksOfLarge(BothClocks):
    """The same, where key "b" is large and the others are small."""

    KEPT = userstate.BagStateSpec("kept", StrUtf8Coder())

    def process(
        self,
        element,
        then=beam.DoFn.TimerParam(BothClocks.THEN),
        clock=beam.DoFn.TimerParam(BothClocks.CLOCK),
        kept=beam.DoFn.StateParam(KEPT),
    ):
        super().process(element, then, clock)
        if element[0] == "b":
            kept.add("x" * 20_000)


def in_order(found):
    """Event timers of different keys fire in any order, then the one of the clock."""
    return [*sorted(found[:-1]), *found[-1:]]


ORDER = [("a", "then"), ("b", "then"), ("c", "then"), ("a", "clock")]


@pytest.fixture(params=[BothClocks, BothClocksOfBeam, BothClocksOfLarge])
def both_clocks(request):
    make = pairs_in_rounds([("a", 200, 1), ("b", 300, 1), ("c", 400, 1)], windows=GlobalWindows())
    return lambda p: make(p) | beam.ParDo(request.param())


def test_timers_of_the_clock_fire_after_those_of_event_time_of_all_keys(both_clocks):
    assert in_order(emitted(both_clocks, slots=1)) == ORDER


def test_timers_of_the_clock_fire_after_those_of_event_time_of_all_keys_in_a_drain(both_clocks):
    before, after = emitted_when_drained(both_clocks, 2, slots=1)
    assert before == []
    assert in_order(after) == ORDER


class Once(beam.DoFn):
    """Sets one timer for each key, with a dynamic tag, and keeps so many characters."""

    THEN = userstate.TimerSpec("then", EVENT)
    CLOCK = userstate.TimerSpec("clock", PROCESSING)
    KEPT = userstate.BagStateSpec("kept", StrUtf8Coder())

    def __init__(self, domain, size) -> None:
        self._domain = domain
        self._size = size

    def process(
        self,
        element,
        then=beam.DoFn.TimerParam(THEN),
        clock=beam.DoFn.TimerParam(CLOCK),
        kept=beam.DoFn.StateParam(KEPT),
    ):
        timer = then if self._domain == EVENT else clock
        timer.set(Timestamp(100), dynamic_timer_tag="tag")
        kept.add("x" * self._size)

    @userstate.on_timer(THEN)
    def ended(self, key=beam.DoFn.KeyParam):
        yield key

    @userstate.on_timer(CLOCK)
    def rang(self, key=beam.DoFn.KeyParam):
        yield key


@pytest.mark.parametrize("domain", [EVENT, PROCESSING])
@pytest.mark.parametrize("is_drained", [False, True])
@pytest.mark.parametrize("size", [1, 20_000], ids=["small", "large"])
def test_timers_of_many_keys_fire_in_as_many_rounds_as_the_budget_says(domain, is_drained, size):
    keys = [f"{n}" for n in range(60)]
    make = pairs_in_rounds([(key, 1, 1) for key in keys], windows=GlobalWindows())

    def begin(rounds):
        if is_drained:
            drain_after(2, rounds)

    kept = emitted_in_rounds(
        lambda p: make(p) | beam.ParDo(Once(domain, size)), begin=begin, elements=10, slots=1
    )
    fired = [part for part in kept if part]
    assert sorted(key for part in fired for key in part) == sorted(keys)
    assert max(map(len, fired)) <= 10


class Keeps(beam.DoFn):
    """Keeps a text as long as the number says until the end of time."""

    KEPT = userstate.BagStateSpec("kept", StrUtf8Coder())
    END = userstate.TimerSpec("end", EVENT)

    def process(self, element, kept=beam.DoFn.StateParam(KEPT), end=beam.DoFn.TimerParam(END)):
        kept.add("x" * element[1])
        end.set(Timestamp(10**6))

    @userstate.on_timer(END)
    def ended(self, key=beam.DoFn.KeyParam, kept=beam.DoFn.StateParam(KEPT)):
        yield key, sum(map(len, kept.read()))


@pytest.mark.parametrize("after", [2, 3])
def test_small_keys_beside_one_that_has_outgrown_its_record_fire_in_a_drain(after):
    make = pairs_in_rounds(
        [("small", 1, 1), ("large", 20_000, 1)], [("late", 2, 2)], windows=GlobalWindows()
    )
    before, rest = emitted_when_drained(lambda p: make(p) | beam.ParDo(Keeps()), after, slots=1)
    assert before == []
    expected = [("large", 20_000), ("late", 2), ("small", 1)]
    assert sorted(rest) == [pair for pair in expected if pair[0] != "late" or after == 3]
