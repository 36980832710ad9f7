"""Drain: timers fire, all of them, and those that would never stop are stopped."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.coders import StrUtf8Coder, VarIntCoder
from apache_beam.transforms import userstate
from apache_beam.transforms.window import FixedWindows, GlobalWindows
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Duration, Timestamp

from sparkdrain.errors import TruncatedInput
from sparkdrain.graph.state_ids import DRAIN_STATE_ID
from sparkdrain.rounds.driver.tell import refused_timers
from tests.support.drained import emitted_when_drained
from tests.support.scripts import Mark, pairs_in_rounds
from timers_state import inspect

EVENT, PROCESSING = userstate.TimeDomain.WATERMARK, userstate.TimeDomain.REAL_TIME
# Rounds until all elements of these scripts were admitted.
ADMITTED = 2


def script(*elements, windows=None):
    return pairs_in_rounds([*elements], Mark(100), windows=windows or GlobalWindows())


def drained(dofn, *elements, windows=None, after=ADMITTED, **settings):
    """What comes out of a DoFn before the drain, and after."""
    make = script(*elements, windows=windows)
    return emitted_when_drained(lambda p: make(p) | beam.ParDo(dofn), after, **settings)


class Ticks(beam.DoFn):
    """A timer that sets itself again, for ever."""

    TICK = userstate.TimerSpec("tick", EVENT)

    def process(self, element, time=beam.DoFn.TimestampParam, tick=beam.DoFn.TimerParam(TICK)):
        tick.set(time + 10)

    @userstate.on_timer(TICK)
    def again(
        self,
        key=beam.DoFn.KeyParam,
        time=beam.DoFn.TimestampParam,
        tick=beam.DoFn.TimerParam(TICK),
    ):
        yield key, time.seconds()
        tick.set(time + 10)


class TicksOfTheClock(beam.DoFn):
    """The same in processing time."""

    TICK = userstate.TimerSpec("clock", PROCESSING)

    def process(self, element, tick=beam.DoFn.TimerParam(TICK)):
        tick.set(Timestamp(60))

    @userstate.on_timer(TICK)
    def again(self, key=beam.DoFn.KeyParam, tick=beam.DoFn.TimerParam(TICK)):
        yield key
        tick.set(Timestamp(3600))


@pytest.mark.parametrize("repeats", [0, 1, 7])
def test_a_timer_that_sets_itself_again_for_ever_is_stopped_and_told_of(repeats):
    told, lines = {}, []
    before, after = drained(
        Ticks(),
        ("a", 1, 1),
        ("b", 1, 5),
        repeats=repeats,
        watch=lambda rounds: (
            told.update(rounds.schedule.refused),
            lines.extend(refused_timers(rounds.schedule)),
        ),
    )
    assert before == []
    assert sorted(after) == [
        (key, first + 10 * n) for key, first in (("a", 11), ("b", 15)) for n in range(1 + repeats)
    ]
    assert told == {("ParDo(Ticks)", "tick"): 2}
    assert [line.partition(":")[0] for line in lines] == [
        "The drain refused 2 timers of family 'tick' in 'ParDo(Ticks)'"
    ]


def test_so_is_one_of_processing_time():
    told = {}
    _, after = drained(
        TicksOfTheClock(),
        ("a", 1, 1),
        repeats=3,
        watch=lambda rounds: told.update(rounds.schedule.refused),
    )
    assert after == ["a"] * 4
    assert told == {("ParDo(TicksOfTheClock)", "clock"): 1}


def test_a_loop_that_ends_with_its_window_is_not_cut():
    class Minutely(beam.DoFn):
        TICK = userstate.TimerSpec("tick", EVENT)

        def process(self, element, time=beam.DoFn.TimestampParam, tick=beam.DoFn.TimerParam(TICK)):
            tick.set(time + 60)

        @userstate.on_timer(TICK)
        def again(
            self,
            time=beam.DoFn.TimestampParam,
            window=beam.DoFn.WindowParam,
            tick=beam.DoFn.TimerParam(TICK),
        ):
            yield time.seconds()
            if time + 60 <= window.max_timestamp():
                tick.set(time + 60)

    told = {}
    _, after = drained(
        Minutely(),
        ("a", 1, 0),
        windows=FixedWindows(3600),
        repeats=1,
        watch=lambda rounds: told.update(rounds.schedule.refused),
    )
    assert after == list(range(60, 3600, 60))
    assert told == {}


def test_a_loop_within_one_moment_of_a_window_is_cut():
    class Stays(beam.DoFn):
        TICK = userstate.TimerSpec("tick", EVENT)
        TOCK = userstate.TimerSpec("tock", EVENT)

        def process(self, element, tick=beam.DoFn.TimerParam(TICK)):
            tick.set(200)

        @userstate.on_timer(TICK)
        def ticked(self, tock=beam.DoFn.TimerParam(TOCK)):
            yield "tick"
            tock.set(200)

        @userstate.on_timer(TOCK)
        def tocked(self, tick=beam.DoFn.TimerParam(TICK)):
            yield "tock"
            tick.set(200)

    _, after = drained(Stays(), ("a", 1, 0), windows=FixedWindows(3600), repeats=3)
    assert after == ["tick", "tock"] * 2


def test_elements_and_what_they_set_are_never_refused():
    class Sets(beam.DoFn):
        SEEN = userstate.CombiningValueStateSpec("seen", VarIntCoder(), sum)
        THEN = userstate.TimerSpec("then", EVENT)

        def process(
            self,
            element,
            seen=beam.DoFn.StateParam(SEEN),
            then=beam.DoFn.TimerParam(THEN),
        ):
            seen.add(element[1])
            then.set(500)

        @userstate.on_timer(THEN)
        def fire(self, key=beam.DoFn.KeyParam, seen=beam.DoFn.StateParam(SEEN)):
            yield key, seen.read()

    told = {}
    make = script(*[(key, 1, 1) for key in "abcabcabc"])
    _, after = emitted_when_drained(
        lambda p: (
            make(p)
            | beam.ParDo(Sets()).with_output_types(tuple[str, int])
            | "then" >> beam.ParDo(Sets())
        ),
        ADMITTED,
        repeats=0,
        watch=lambda rounds: told.update(rounds.schedule.refused),
    )
    assert sorted(after) == [("a", 3), ("b", 3), ("c", 3)]
    assert told == {}


class Order(beam.DoFn):
    """Timers of both kinds, set in no order."""

    SEEN = userstate.BagStateSpec("seen", StrUtf8Coder())
    LATE = userstate.TimerSpec("late", EVENT)
    EARLY = userstate.TimerSpec("early", EVENT)
    CLOCK = userstate.TimerSpec("clock", PROCESSING)
    AFTER = userstate.TimerSpec("after", EVENT)
    BEYOND = userstate.TimerSpec("beyond", EVENT)

    def process(
        self,
        element,
        late=beam.DoFn.TimerParam(LATE),
        early=beam.DoFn.TimerParam(EARLY),
        clock=beam.DoFn.TimerParam(CLOCK),
        beyond=beam.DoFn.TimerParam(BEYOND),
    ):
        clock.set(Timestamp(70))
        late.set(MAX_TIMESTAMP)
        early.set(300)
        beyond.set(MAX_TIMESTAMP + Duration(micros=1))

    @userstate.on_timer(LATE)
    def on_late(self, time=beam.DoFn.TimestampParam):
        yield "late", time

    @userstate.on_timer(EARLY)
    def on_early(self, time=beam.DoFn.TimestampParam):
        yield "early", time

    @userstate.on_timer(CLOCK)
    def on_clock(self, time=beam.DoFn.TimestampParam, after=beam.DoFn.TimerParam(AFTER)):
        yield "clock", time
        after.set(400)

    @userstate.on_timer(AFTER)
    def on_after(self, time=beam.DoFn.TimestampParam):
        yield "after", time

    @userstate.on_timer(BEYOND)
    def on_beyond(self):
        yield "beyond", None


def test_timers_of_event_time_fire_in_order_then_those_of_processing_time_each_at_its_time():
    left = []
    _, after = drained(
        Order(),
        ("a", 1, 1),
        watch=lambda rounds: left.extend(timers_left(rounds)),
    )
    assert after == [
        ("early", Timestamp(300)),
        ("late", MAX_TIMESTAMP),
        ("clock", Timestamp(70)),
        ("after", Timestamp(400)),
    ]
    assert left == []


def timers_left(rounds):
    """Timers, windows and residuals in the stores of all slots."""
    for slot in rounds.slots():
        slot.overlay.commit()
        slot.overlay.flush()
        yield from (e for e in inspect.entries(slot.overlay.store) if e.time is not None)


class Total(beam.DoFn):
    """Adds up, and tells at the end of the window."""

    TOTAL = userstate.CombiningValueStateSpec("total", VarIntCoder(), sum)
    END = userstate.TimerSpec("end", EVENT)

    def process(
        self,
        element,
        window=beam.DoFn.WindowParam,
        total=beam.DoFn.StateParam(TOTAL),
        end=beam.DoFn.TimerParam(END),
    ):
        total.add(element[1])
        end.set(window.max_timestamp())

    @userstate.on_timer(END)
    def tell(self, key=beam.DoFn.KeyParam, total=beam.DoFn.StateParam(TOTAL)):
        yield key, total.read()


def test_a_timer_at_the_end_of_the_global_window_flushes_a_key():
    _, after = drained(Total(), ("a", 1, 1), ("a", 2, 2), ("b", 5, 3))
    assert sorted(after) == [("a", 3), ("b", 5)]


def test_more_timers_than_a_round_may_fire_fire_in_several_and_once():
    elements = [(f"{n}", n, 1) for n in range(200)]
    failed = []

    def fail(header):
        if header.orders.drain and len(failed) < 6 and header.slot == header.number % 2:
            failed.append(header.number)
            message = "lost"
            raise TruncatedInput(message)

    made = {}
    _, after = drained(
        Total(),
        *elements,
        windows=FixedWindows(10),
        elements=20,
        fail=fail,
        attempts=9,
        watch=lambda rounds: made.update(rounds=len(rounds.rounds), left=[*timers_left(rounds)]),
    )
    assert sorted(after) == sorted((f"{n}", n) for n in range(200))
    assert made["rounds"] > 5
    assert made["left"] == []
    assert len(failed) == 6


def test_state_of_windows_that_end_is_empty_afterwards():
    left = []

    def look(rounds):
        for slot in rounds.slots():
            slot.overlay.commit()
            slot.overlay.flush()
            left.extend(inspect.entries(slot.overlay.store))

    drained(Total(), ("a", 1, 1), ("b", 2, 15), windows=FixedWindows(10), watch=look)
    assert {entry.kind for entry in left if entry.state_id != DRAIN_STATE_ID} == set()


def test_elements_carry_the_time_of_the_timer_that_made_them():
    class Timed(beam.DoFn):
        def process(self, element, time=beam.DoFn.TimestampParam):
            yield element, time.micros

    make = script(("a", 1, 1), windows=FixedWindows(10))
    _, after = emitted_when_drained(
        lambda p: make(p) | beam.ParDo(Total()) | beam.ParDo(Timed()), ADMITTED
    )
    assert after == [(("a", 1), 9_999_999)]
