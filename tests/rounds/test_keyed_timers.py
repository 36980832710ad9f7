"""Timers of stateful DoFns in rounds: when they fire, in which order, and what they hold back."""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import replace

import apache_beam as beam
import pytest
from apache_beam.coders import StrUtf8Coder, VarIntCoder
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import FixedWindows, GlobalWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.rounds import clock
from sparkdrain.rounds.driver import loop
from sparkdrain.stages.shards.turn import Feed
from sparkdrain.watermarks.frontier import BEGIN, END
from tests.support.in_memory_rounds import DEFAULTS
from tests.support.recorded import emitted, emitted_in_batch, emitted_in_rounds
from tests.support.scripts import Mark, Pass, pairs_at_once, pairs_in_rounds
from tests.support.undoing import ATTEMPTS, undoing
from timers_state import inspect

SECOND = 1_000_000


def held(rounds):
    """Output frontiers of the last level after each round, in seconds."""
    last = len(rounds.plan.levels) - 1
    found = []
    for reports in rounds.rounds:
        mine = [report.outputs[-1] for report in reports if report.level == last]
        if mine:
            found.append(min(mine) / SECOND)
    return found


class AtNumber(beam.DoFn):
    """Sets a timer at the time that each number names; tells what fires, and when."""

    EVENT = userstate.TimerSpec("event", TimeDomain.WATERMARK)

    def process(self, element, event=beam.DoFn.TimerParam(EVENT)):
        event.set(Timestamp(element[1]), dynamic_timer_tag=str(element[1]))

    @userstate.on_timer(EVENT)
    def fire(
        self,
        key=beam.DoFn.KeyParam,
        tag=beam.DoFn.DynamicTimerTagParam,
        at=beam.DoFn.TimestampParam,
    ):
        yield key, tag, float(at)


def test_event_timers_fire_when_the_watermark_passes_them() -> None:
    found = emitted_in_rounds(
        lambda p: (
            pairs_in_rounds(
                Mark(0), [("a", 20, 1), ("b", 10, 1), ("a", 5, 1)], Mark(9), Mark(10), Mark(19)
            )(p)
            | beam.ParDo(AtNumber())
        )
    )
    fired = [kept for kept in found if kept]
    assert fired == [[("a", "5", 5.0)], [("b", "10", 10.0)], [("a", "20", 20.0)]]


def test_the_output_frontier_is_held_at_the_first_event_timer() -> None:
    frontiers = []
    steps = [Mark(0), [("a", 20, 1)], Mark(10), Mark(30)]
    emitted(
        lambda p: pairs_in_rounds(*steps)(p) | beam.ParDo(AtNumber()),
        watch=lambda rounds: frontiers.extend(held(rounds)),
    )
    assert frontiers[1:-1] == [0, 0, 10, 30]


class Later(beam.DoFn):
    """Buffers, and gives all away after so many seconds of processing time."""

    BUFFER = userstate.BagStateSpec("buffer", VarIntCoder())
    FLUSH = userstate.TimerSpec("flush", TimeDomain.REAL_TIME)

    def process(
        self,
        element,
        buffer=beam.DoFn.StateParam(BUFFER),
        flush=beam.DoFn.TimerParam(FLUSH),
    ):
        buffer.add(element[1])
        flush.set(Timestamp(element[1]))

    @userstate.on_timer(FLUSH)
    def fire(
        self,
        key=beam.DoFn.KeyParam,
        at=beam.DoFn.TimestampParam,
        buffer=beam.DoFn.StateParam(BUFFER),
    ):
        yield key, list(buffer.read()), float(at)
        buffer.clear()


def test_processing_time_timers_fire_when_it_is_time_and_hold_the_time_of_their_element() -> None:
    frontiers = []
    steps = [
        Mark(50),
        [("a", 10, 60), ("b", 20, 70)],
        Mark(100),
        Pass(9),
        Pass(1),
        [("a", 15, 110)],
        Pass(20),
    ]
    found = emitted_in_rounds(
        lambda p: pairs_in_rounds(*steps)(p) | beam.ParDo(Later()),
        watch=lambda rounds: frontiers.extend(held(rounds)),
        slots=1,
    )
    assert [kept for kept in found if kept] == [
        [("a", [10], 10.0)],
        [("a", [15], 15.0), ("b", [20], 20.0)],
    ]
    assert [f for n, f in enumerate(frontiers) if f not in frontiers[:n]][1:-1] == [50, 60, 70, 100]


class Both(beam.DoFn):
    """Fires by both clocks and sets timers from callbacks; tells all in order."""

    EVENT = userstate.TimerSpec("event", TimeDomain.WATERMARK)
    OTHER = userstate.TimerSpec("other", TimeDomain.WATERMARK)
    CLOCK = userstate.TimerSpec("clock", TimeDomain.REAL_TIME)
    LOG = userstate.BagStateSpec("log", StrUtf8Coder())

    def process(
        self,
        element,
        event=beam.DoFn.TimerParam(EVENT),
        other=beam.DoFn.TimerParam(OTHER),
        clock=beam.DoFn.TimerParam(CLOCK),
        log=beam.DoFn.StateParam(LOG),
    ):
        log.add(f"element {element[1]}")
        event.set(Timestamp(20))
        other.set(Timestamp(10))
        clock.set(Timestamp(1000))
        clock.set(Timestamp(900), dynamic_timer_tag="early")
        event.set(Timestamp(element[1]), dynamic_timer_tag=f"at {element[1]}")
        event.set(Timestamp(15), dynamic_timer_tag="cleared")
        event.clear(dynamic_timer_tag="cleared")
        clock.set(Timestamp(950), dynamic_timer_tag="cleared")
        clock.clear(dynamic_timer_tag="cleared")

    @userstate.on_timer(EVENT)
    def on_event(
        self,
        at=beam.DoFn.TimestampParam,
        tag=beam.DoFn.DynamicTimerTagParam,
        other=beam.DoFn.TimerParam(OTHER),
        log=beam.DoFn.StateParam(LOG),
    ):
        log.add(f"event {tag} {float(at)}")
        if at == Timestamp(20):
            other.set(Timestamp(19), dynamic_timer_tag="behind")
            other.set(Timestamp(30), dynamic_timer_tag="ahead")

    @userstate.on_timer(OTHER)
    def on_other(
        self,
        at=beam.DoFn.TimestampParam,
        tag=beam.DoFn.DynamicTimerTagParam,
        log=beam.DoFn.StateParam(LOG),
    ):
        log.add(f"other {tag} {float(at)}")

    @userstate.on_timer(CLOCK)
    def on_clock(
        self,
        key=beam.DoFn.KeyParam,
        tag=beam.DoFn.DynamicTimerTagParam,
        event=beam.DoFn.TimerParam(EVENT),
        clock=beam.DoFn.TimerParam(CLOCK),
        log=beam.DoFn.StateParam(LOG),
    ):
        log.add(f"clock {tag}")
        if tag == "early":
            event.set(Timestamp(35), dynamic_timer_tag="by clock")
            clock.set(Timestamp(2000), dynamic_timer_tag="last")
        if tag == "last":
            yield key, list(log.read())


BOTH = [
    "element 12",
    "other  10.0",
    "event at 12 12.0",
    "event  20.0",
    "other behind 19.0",
    "other ahead 30.0",
    "clock early",
    "event by clock 35.0",
    "clock ",
    "clock last",
]


@pytest.mark.parametrize(
    "steps",
    [
        [[("a", 12, 0), ("b", 12, 0)]],
        [[("a", 12, 0), ("b", 12, 0)], Mark(11), Mark(12), Mark(25), Mark(40)],
        [[("a", 12, 0), ("b", 12, 0)], Mark(40), Pass(920), Pass(100), Pass(1000)],
    ],
    ids=["at the end", "step by step", "by both clocks"],
)
def test_timers_of_a_key_fire_in_order_whenever_the_watermark_passes_them(steps) -> None:
    found = emitted(lambda p: pairs_in_rounds(*steps)(p) | beam.ParDo(Both()))
    assert sorted(found) == [("a", BOTH), ("b", BOTH)]
    at_once = emitted_in_batch(lambda p: pairs_at_once(*steps)(p) | beam.ParDo(Both()))
    assert sorted(at_once) == [("a", BOTH), ("b", BOTH)]


class Ticking(beam.DoFn):
    """A looping timer that stops at a time."""

    TICK = userstate.TimerSpec("tick", TimeDomain.WATERMARK)
    TICKS = userstate.CombiningValueStateSpec("ticks", sum)

    def process(self, element, tick=beam.DoFn.TimerParam(TICK)):
        tick.set(Timestamp(1))

    @userstate.on_timer(TICK)
    def fire(
        self,
        at=beam.DoFn.TimestampParam,
        tick=beam.DoFn.TimerParam(TICK),
        ticks=beam.DoFn.StateParam(TICKS),
    ):
        ticks.add(1)
        yield int(at), ticks.read()
        if at < Timestamp(200):
            tick.set(at + 1)


@pytest.mark.parametrize("elements", [1, 7, 10_000])
def test_a_looping_timer_fires_as_far_as_the_budget_goes_and_then_in_the_next_round(
    elements,
) -> None:
    steps = [[("k", 1, 0)], Mark(50), Mark(60)]
    found = emitted_in_rounds(
        lambda p: pairs_in_rounds(*steps)(p) | beam.ParDo(Ticking()), elements=elements, seconds=100
    )
    assert [tick for kept in found for tick in kept] == [(n, n) for n in range(1, 201)]
    assert len(list(filter(None, found))) > 3 or elements == 10_000


def test_due_timers_that_wait_for_the_next_round_hold_the_output_back() -> None:
    frontiers = []
    steps = [[("k", n, 0) for n in range(1, 21)], Mark(10), Mark(100)]
    emitted(
        lambda p: pairs_in_rounds(*steps)(p) | beam.ParDo(AtNumber()),
        elements=2,
        seconds=100,
        watch=lambda rounds: frontiers.extend(held(rounds)),
    )
    whole = [f for f in frontiers if 0 < f <= 20]
    assert whole == sorted(whole)
    assert {3, 5, 7, 9} <= set(whole), "two fire in a round, the third holds"


def test_timers_that_are_due_wait_for_no_new_input() -> None:
    started = time.monotonic()
    found = emitted(
        lambda p: pairs_in_rounds([("k", n, 0) for n in range(1, 40)])(p) | beam.ParDo(AtNumber()),
        elements=1,
        seconds=100,
    )
    assert len(found) == 39
    assert time.monotonic() - started < 30


def test_a_dofn_with_many_timers_does_not_keep_another_from_its_own() -> None:
    def build(p):
        pairs = pairs_in_rounds([("k", 1, 0)])(p)
        ticks = pairs | "ticks" >> beam.ParDo(Ticking())
        again = pairs | "again" >> beam.ParDo(Ticking())
        once = pairs | beam.ParDo(AtNumber())
        return (ticks, again, once) | beam.Flatten()

    found = [kept for kept in emitted_in_rounds(build, elements=3, seconds=100) if kept]
    assert any(len(element) == 3 for kept in found[:3] for element in kept)
    assert len(found) > 60


class OutputTime(beam.DoFn):
    TIMER = userstate.TimerSpec("timer", TimeDomain.WATERMARK)

    def process(self, element, timer=beam.DoFn.TimerParam(TIMER)):
        timer.set(Timestamp(element[1]))

    @userstate.on_timer(TIMER)
    def fire(self, at=beam.DoFn.TimestampParam, w=beam.DoFn.WindowParam):
        yield "now"
        yield TimestampedValue("later", at + 3)


def test_what_a_timer_emits_has_its_time_and_window_as_in_a_bounded_job() -> None:
    def told(pairs):
        return pairs | beam.ParDo(OutputTime()) | beam.Map(_told)

    steps = [[("a", 5, 1), ("b", 14, 12)], Mark(3), [("a", 6, 4)], Mark(20)]
    found = emitted(lambda p: told(pairs_in_rounds(*steps, windows=FixedWindows(10))(p)))
    expected = emitted_in_batch(lambda p: told(pairs_at_once(*steps, windows=FixedWindows(10))(p)))
    assert sorted(found) == sorted(expected)


def _told(element, at=beam.DoFn.TimestampParam, w=beam.DoFn.WindowParam):
    return element, float(at), repr(w)


# --- windows that are over ------------------------------------------------------------------------


class AtWindowEnd(beam.DoFn):
    """Sums up per window; ``after`` seconds after its end the sum comes out."""

    SUM = userstate.CombiningValueStateSpec("sum", sum)
    LIST = userstate.BagStateSpec("list", VarIntCoder())
    END = userstate.TimerSpec("end", TimeDomain.WATERMARK)
    CLOCK = userstate.TimerSpec("clock", TimeDomain.REAL_TIME)

    def __init__(self, after: float, clock: float | None = None) -> None:
        self._after = after
        self._clock = clock

    def process(
        self,
        element,
        w=beam.DoFn.WindowParam,
        total=beam.DoFn.StateParam(SUM),
        listed=beam.DoFn.StateParam(LIST),
        end=beam.DoFn.TimerParam(END),
        clock=beam.DoFn.TimerParam(CLOCK),
    ):
        total.add(element[1])
        listed.add(element[1])
        if self._clock is None:
            end.set(w.end + self._after)
        else:
            clock.set(Timestamp(self._clock))

    @userstate.on_timer(END)
    def at_end(
        self,
        key=beam.DoFn.KeyParam,
        w=beam.DoFn.WindowParam,
        total=beam.DoFn.StateParam(SUM),
        listed=beam.DoFn.StateParam(LIST),
    ):
        yield key, int(w.start), total.read(), sorted(listed.read())

    @userstate.on_timer(CLOCK)
    def by_clock(
        self,
        key=beam.DoFn.KeyParam,
        w=beam.DoFn.WindowParam,
        total=beam.DoFn.StateParam(SUM),
        listed=beam.DoFn.StateParam(LIST),
    ):
        yield key, int(w.start), total.read(), sorted(listed.read())


def rows_left(rounds) -> list[inspect.Entry]:
    """What the slots still keep for users, after the last round was committed as well."""
    found = []
    for reports in rounds.schedule.reports():
        slot = rounds._slots[reports.level, reports.slot]
        slot._version.settle(reports.attempt, slot._commit, slot._undo)
        slot.overlay.flush()
        found += inspect.entries(slot.overlay.store)
    return found


WINDOWED = [
    [("a", 1, 1), ("b", 2, 2)],
    Mark(5),
    [("a", 3, 6), ("a", 10, 11)],
    Mark(10),
    Mark(15),
    [("a", 20, 16)],
    Mark(22),
    [("c", 5, 31)],
    Mark(60),
    [("d", 0, 70)],
    Mark(75),
]
SUMS = [
    ("a", 0, 4, [1, 3]),
    ("a", 10, 30, [10, 20]),
    ("b", 0, 2, [2]),
    ("c", 30, 5, [5]),
    ("d", 70, 0, [0]),
]


@pytest.mark.parametrize("lateness", [0, 7])
@pytest.mark.parametrize("after", [-1, 0, 3, 12], ids=lambda a: f"{a}s after the end")
def test_a_window_ends_and_nothing_of_it_is_left(after, lateness) -> None:
    left = []

    def build(p):
        pairs = pairs_in_rounds(*WINDOWED, windows=FixedWindows(10), allowed_lateness=lateness)
        return pairs(p) | beam.ParDo(AtWindowEnd(after))

    found = emitted(build, watch=lambda rounds: left.extend(rows_left(rounds)))
    assert sorted(found) == SUMS
    assert left == []


def test_a_window_with_a_processing_time_timer_lasts_until_that_has_fired() -> None:
    left = []
    steps = [[("a", 1, 1)], Mark(50), [("a", 2, 51)], Pass(100), [("b", 3, 52)], Mark(70), Pass(1)]

    def build(p):
        pairs = pairs_in_rounds(*steps, windows=FixedWindows(10))(p)
        return pairs | beam.ParDo(AtWindowEnd(0, clock=100))

    def watch(rounds) -> None:
        left.extend(rows_left(rounds))

    found = emitted(build, watch=watch)
    assert sorted(found) == [("a", 0, 1, [1]), ("a", 50, 2, [2]), ("b", 50, 3, [3])]
    assert left == []


class Hoards(beam.DoFn):
    """Tells how much it has, and adds that much more; nothing else is kept."""

    BAG = userstate.BagStateSpec("bag", StrUtf8Coder())

    def process(self, element, bag=beam.DoFn.StateParam(BAG)):
        yield sum(map(len, bag.read()))
        if element[1]:
            bag.add("x" * element[1])


@pytest.mark.parametrize("keys", [1, 9])
def test_a_window_that_has_only_a_large_bag_ends_and_nothing_of_it_is_left(keys) -> None:
    left = []
    names = [f"k{number}" for number in range(keys)]
    steps = [[(key, 20_000, 1) for key in names], [(key, 0, 2) for key in names], Mark(30)]

    def build(p):
        return pairs_in_rounds(*steps, windows=FixedWindows(10))(p) | beam.ParDo(Hoards())

    found = emitted(build, watch=lambda rounds: left.extend(rows_left(rounds)))
    assert sorted(found) == [0] * keys + [20_000] * keys
    assert left == []


# --- failures -------------------------------------------------------------------------------------


class Failing(beam.DoFn):
    STATE = userstate.ReadModifyWriteStateSpec("state", VarIntCoder())
    TIMER = userstate.TimerSpec("wake up", TimeDomain.WATERMARK)

    def process(
        self,
        element,
        state=beam.DoFn.StateParam(STATE),
        timer=beam.DoFn.TimerParam(TIMER),
    ):
        timer.set(Timestamp(5))
        if element[1] == 13:
            message = "thirteen"
            raise ValueError(message)
        if element[1] == 14:
            state.write("no number")

    @userstate.on_timer(TIMER)
    def fire(self, key=beam.DoFn.KeyParam):
        message = "no more"
        raise KeyError(message)
        yield key


@pytest.mark.parametrize(
    ("number", "error", "named"),
    [
        (13, ValueError, ["thirteen", "failing", "key 'left'", "window [0.0, 10.0)"]),
        (1, KeyError, ["no more", "failing", "key 'left'", "window [0.0, 10.0)", "'wake up'"]),
        (14, TypeError, ["key 'left'", "window [0.0, 10.0)", "state 'state'", "failing"]),
    ],
    ids=["in an element", "in a timer", "when state is written"],
)
def test_an_error_of_a_user_names_key_window_and_timer(number, error, named) -> None:
    with pytest.raises(error) as caught:
        emitted(
            lambda p: (
                pairs_in_rounds([("left", number, 1)], windows=FixedWindows(10))(p)
                | "failing" >> beam.ParDo(Failing())
            )
        )
    told = "\n".join([str(caught.value), *caught.value.__notes__])
    for part in named:
        assert part in told
    assert ("timer" in told) == (error is KeyError)


@pytest.mark.parametrize("seed", range(4))
def test_rounds_that_fail_leave_no_trace(seed) -> None:
    def build(p):
        pairs = pairs_in_rounds(*WINDOWED, windows=FixedWindows(10))(p)
        sums = pairs | beam.ParDo(AtWindowEnd(0))
        ticks = pairs | "global" >> beam.WindowInto(GlobalWindows()) | beam.ParDo(Ticking())
        alone = sums | "alone" >> beam.WindowInto(GlobalWindows())
        return (alone, ticks) | beam.Flatten()

    fail = undoing(seed, 0.15)
    found = emitted(build, fail=fail, attempts=ATTEMPTS, elements=20, seconds=100)
    undisturbed = emitted(build, elements=20, seconds=100)
    assert sorted(found, key=repr) == sorted(undisturbed, key=repr)
    assert sorted(element for element in found if len(element) == 4) == SUMS


class Many(beam.DoFn):
    TIMER = userstate.TimerSpec("timer", TimeDomain.WATERMARK)

    def __init__(self, timers: int) -> None:
        self._timers = timers

    def process(self, element, timer=beam.DoFn.TimerParam(TIMER)):
        for number in range(self._timers):
            timer.set(Timestamp(number * 7919 % self._timers), dynamic_timer_tag=str(number))

    @userstate.on_timer(TIMER)
    def fire(self, key=beam.DoFn.KeyParam, at=beam.DoFn.TimestampParam):
        yield key, int(at)


def test_many_timers_of_a_key_that_are_due_at_once_fire_in_order_beyond_memory() -> None:
    timers = 20_000
    found = emitted(
        lambda p: pairs_in_rounds([("a", 0, 0)], [("b", 0, 0)])(p) | beam.ParDo(Many(timers)),
        options=replace(DEFAULTS, memory_bytes=2_000_000),
        elements=3000,
        seconds=100,
    )
    for key in "ab":
        assert [at for k, at in found if k == key] == list(range(timers))


class Given:
    """Plays one element; its input ends when ``is_done`` says so."""

    position = 0

    def __init__(self, transform: str, element: bytes, is_done) -> None:
        self._feeds = [{transform: Feed(((element, 0),), 0, BEGIN)}]
        self._end = {transform: Feed((), END, 0)}
        self._standing = {transform: Feed((), BEGIN)}
        self._is_done = is_done
        self.is_over = False

    def next(self, *, quiet):
        if self._feeds:
            return self._feeds[0]
        return self._end if quiet and self._is_done() else {}

    def standing(self):
        return self._standing

    def committed(self) -> None:
        if self._feeds:
            ((transform, feed),) = self._feeds.pop().items()
            self._standing = {transform: Feed((), feed.frontier, feed.frontier)}
        elif self._is_done():
            self.is_over = True


class Impatient(threading.Event):
    def wait(self, timeout=None) -> bool:
        return False


def test_a_clock_that_is_set_back_fires_no_timer_twice_or_early(monkeypatch) -> None:
    readings = itertools.chain([100, 101, 102], range(50, 1000))
    monkeypatch.setattr(clock.time, "time_ns", lambda: next(readings) * 1_000_000_000)
    monkeypatch.setattr(loop, "attention", lambda cancel, drain: Impatient())
    told = []

    class Tells(clock.WallClock):
        def now(self):
            told.append(super().now())
            return told[-1]

    def give(rounds) -> None:
        (source,) = rounds.plan.played
        element = beam.coders.FastPrimitivesCoder().encode(("k", 110))
        rounds.loop.play = Given(source.transform, element, lambda: len(flat(rounds.kept)) == 1)

    found = emitted(
        lambda p: pairs_in_rounds([("k", 110, 0)])(p) | beam.ParDo(Later()),
        clock=Tells(),
        begin=give,
    )
    assert found == [("k", [110], 110.0)]
    assert told == sorted(told)
    assert max(told) >= 110 * SECOND


def flat(kept):
    return [element for elements in kept for element in elements]
