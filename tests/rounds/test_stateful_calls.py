"""Generated calls of a stateful DoFn pass what Beam passes, and do with results what Beam does."""

from __future__ import annotations

from dataclasses import replace
from traceback import walk_tb

import apache_beam as beam
import pytest
from apache_beam.coders import StrUtf8Coder, VarIntCoder
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms import userstate, window
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.shuffle.keyed_blocks import KeyedChunks
from sparkdrain.stages.telling.failure import failure_of
from tests.support.in_memory_rounds import DEFAULTS
from tests.support.large_keys import large_keys
from tests.support.recorded import emitted
from tests.support.scripts import Mark, Pass, pairs_in_rounds

STEPS = [
    [("a", 1, 1), ("b", 2, 2), ("a", 3, 9)],
    Mark(5),
    [("a", 4, 12), ("b", 5, 11), ("b", 6, 11)],
    Pass(100),
    Mark(20),
    [("a", 7, 25)],
]
WINDOWS = {
    "global": window.GlobalWindows(),
    "fixed": window.FixedWindows(10),
    "sliding": window.SlidingWindows(12, 4),
}
COUNT = userstate.ReadModifyWriteStateSpec("count", VarIntCoder())
SOON = userstate.TimerSpec("soon", TimeDomain.WATERMARK)
LATER = userstate.TimerSpec("later", TimeDomain.REAL_TIME)


class AllParameters(beam.DoFn):
    """Asks for everything, and makes results of every kind."""

    def process(
        self,
        element,
        pane=beam.DoFn.PaneInfoParam,
        key=beam.DoFn.KeyParam,
        w=beam.DoFn.WindowParam,
        at=beam.DoFn.TimestampParam,
        count=beam.DoFn.StateParam(COUNT),
        soon=beam.DoFn.TimerParam(SOON),
        later=beam.DoFn.TimerParam(LATER),
    ):
        count.write((count.read() or 0) + 1)
        soon.set(at + 1, dynamic_timer_tag=f"{element[1]}")
        later.set(Timestamp(90))
        yield key, element, pane.index, repr(w), at.micros, count.read()
        yield TaggedOutput("odd", element) if element[1] % 2 else window.TimestampedValue("t", at)

    @userstate.on_timer(SOON)
    def on_soon(
        self,
        at=beam.DoFn.TimestampParam,
        tag=beam.DoFn.DynamicTimerTagParam,
        w=beam.DoFn.WindowParam,
        key=beam.DoFn.KeyParam,
        count=beam.DoFn.StateParam(COUNT),
        soon=beam.DoFn.TimerParam(SOON),
    ):
        if tag == "1":
            soon.set(at + 1, dynamic_timer_tag="again")
        return [("soon", key, tag, repr(w), at.micros, count.read())]

    @userstate.on_timer(LATER)
    def on_later(self):
        return None


def told(element, w=beam.DoFn.WindowParam, at=beam.DoFn.TimestampParam):
    return repr(element), repr(w), at.micros


def made(dofn, windowing, *, compiled):
    def build(p):
        pairs = pairs_in_rounds(*STEPS, windows=WINDOWS[windowing])
        outputs = pairs(p) | beam.ParDo(dofn).with_outputs("odd", main="main")
        return (outputs.main, outputs.odd) | beam.Flatten() | beam.Map(told)

    return emitted(build, options=replace(DEFAULTS, compiled=compiled))


@pytest.mark.parametrize("windowing", sorted(WINDOWS))
def test_they_make_what_beam_makes(windowing, calls) -> None:
    found = made(AllParameters(), windowing, compiled=True)
    assert calls
    assert None not in calls
    assert sorted(found) == sorted(made(AllParameters(), windowing, compiled=False))


WRONG = userstate.TimerSpec("wrong", TimeDomain.WATERMARK)


class Fails(beam.DoFn):
    def __init__(self, in_timer) -> None:
        self.in_timer = in_timer

    def process(
        self,
        element,
        count=beam.DoFn.StateParam(COUNT),
        wrong=beam.DoFn.TimerParam(WRONG),
    ):
        wrong.set(Timestamp(30))
        if not self.in_timer:
            self.on_wrong()

    @userstate.on_timer(WRONG)
    def on_wrong(self):
        message = "on purpose"
        raise KeyError(message, 7)


@pytest.mark.parametrize("in_timer", [False, True])
def test_an_error_names_the_step_and_the_key_as_without_them(in_timer, calls) -> None:
    told = []
    for compiled in (True, False):
        with pytest.raises(KeyError) as raised:
            made(Fails(in_timer), "global", compiled=compiled)
        told.append((raised.value.args, raised.value.__notes__))
    assert None not in calls
    assert told[0] == told[1]
    assert "on purpose [while running 'ParDo(Fails)/ParDo(Fails)']" in told[0][0]


class Returns(beam.DoFn):
    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        return "letters"


def test_a_string_of_results_is_refused(calls) -> None:
    with pytest.raises(TypeError, match="Returning a str from a ParDo"):
        made(Returns(), "global", compiled=True)
    assert None not in calls


class WholeElement(beam.DoFn):
    def process(
        self, element, all_of_it=beam.DoFn.WindowedValueParam, n=beam.DoFn.StateParam(COUNT)
    ):
        yield repr(all_of_it.value)


def test_what_is_not_known_is_left_to_beam(calls) -> None:
    assert made(WholeElement(), "global", compiled=True)
    assert set(calls) == {None}


OVER = userstate.TimerSpec("over", TimeDomain.WATERMARK)


def fails(element):
    message = f"behind {element[0]}"
    raise ValueError(message)


class Yields(beam.DoFn):
    """Whatever comes, one way or the other."""

    def process(
        self,
        element,
        at=beam.DoFn.TimestampParam,
        count=beam.DoFn.StateParam(COUNT),
        over=beam.DoFn.TimerParam(OVER),
    ):
        number = (count.read() or 0) + 1
        count.write(number)
        over.set(Timestamp(40))
        if element[1] % 3 == 0:
            return [window.TimestampedValue((element, number), at + 1)]
        return ((element, each) for each in range(number))

    @userstate.on_timer(OVER)
    def on_over(self, key=beam.DoFn.KeyParam, count=beam.DoFn.StateParam(COUNT)):
        yield (key, count.read()), "over"
        count.clear()


@pytest.mark.parametrize("windowing", sorted(WINDOWS))
def test_keys_with_one_element_each_make_what_beam_makes(windowing, calls, monkeypatch) -> None:
    """Many that share their time, so that the loop over records has them."""
    learned = []
    start = KeyedChunks.start
    monkeypatch.setattr(
        KeyedChunks, "start", lambda *args: learned.append(start(*args)) or learned[-1]
    )

    def build(p):
        steps = [
            *([(f"k{key}", key + time, time) for key in range(12)] for time in (1, 2, 2, 5)),
            Mark(5),
            [(f"k{key}", key, 12) for key in range(20)],
            [(f"k{key}", key, 13 + key % 2) for key in range(20)],
            Mark(30),
            [(f"k{key}", key, 31) for key in range(3, 9)],
        ]
        pairs = pairs_in_rounds(*steps, windows=WINDOWS[windowing])
        return pairs(p) | beam.ParDo(Yields()).with_output_types(object) | beam.Map(told)

    found = emitted(build, options=replace(DEFAULTS, compiled=True))
    assert None not in calls
    assert len(found) > 100
    assert any(learned) == (windowing != "sliding")
    with large_keys():
        assert sorted(found) == sorted(emitted(build, options=replace(DEFAULTS, compiled=False)))


def test_keys_with_one_element_each_whose_blocks_are_on_disk_make_what_beam_makes(calls) -> None:
    def build(p):
        steps = [[(f"k{key}", key, 2) for key in range(40)], Mark(30)]
        return pairs_in_rounds(*steps)(p) | beam.ParDo(Yields()).with_output_types(object)

    options = replace(DEFAULTS, memory_bytes=4000)
    found = emitted(build, options=replace(options, compiled=True))
    assert None not in calls
    assert sorted(map(repr, found)) == sorted(
        map(repr, emitted(build, options=replace(options, compiled=False)))
    )


def test_an_error_behind_a_stateful_dofn_names_its_own_step_and_no_key_that_may_be_another(
    calls,
) -> None:
    def build(p):
        return (
            pairs_in_rounds(*STEPS)(p)
            | beam.ParDo(Yields()).with_output_types(object)
            | "Fails" >> beam.Map(fails)
        )

    with pytest.raises(ValueError, match=r"behind .*while running 'Fails'") as raised:
        emitted(build)
    assert None not in calls
    assert not any("key" in note for note in getattr(raised.value, "__notes__", ()))


class FailsAtEight(beam.DoFn):
    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        if element[1] == 8:
            message = "eight"
            raise ValueError(message)
        count.write(1)


@pytest.mark.parametrize("times", [1, 2], ids=["in the loop", "in a call"])
def test_an_error_names_its_key_and_shows_no_frames_of_generated_code(times, calls) -> None:
    def build(p):
        steps = [[(f"k{number}", number, number) for number in range(9)] * times]
        return pairs_in_rounds(*steps)(p) | beam.ParDo(FailsAtEight())

    with pytest.raises(ValueError, match="eight") as raised:
        emitted(build, slots=1)
    assert None not in calls
    assert "key 'k8'" in raised.value.__notes__[-1]
    files = [frame.f_code.co_filename for frame, _ in walk_tb(raised.value.__traceback__)]
    assert any("<compiled loop" in file for file in files)
    assert any("<compiled calls" in file for file in files) == (times > 1)
    trace = failure_of(raised.value, 0, 0, "here").trace
    assert "in process" in trace
    assert "<compiled" not in trace


class Mislabels(beam.DoFn):
    """Says of words that they are numbers."""

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        count.write(1)
        yield element[0], "a word"


def test_an_error_of_no_step_behind_a_stateful_dofn_names_that_dofn_and_no_key(calls) -> None:
    def build(p):
        return (
            pairs_in_rounds(*STEPS)(p)
            | "Mislabels" >> beam.ParDo(Mislabels()).with_output_types(tuple[str, int])
            | beam.ParDo(Returns())
        )

    with pytest.raises(TypeError, match="while running 'Mislabels'") as raised:
        emitted(build)
    assert None not in calls
    assert not any("key" in note for note in getattr(raised.value, "__notes__", ()))


BAG = userstate.BagStateSpec("bag", StrUtf8Coder())
SEEN = userstate.SetStateSpec("seen", StrUtf8Coder())
TOTAL = userstate.CombiningValueStateSpec("total", VarIntCoder(), sum)
FULL = userstate.TimerSpec("full", TimeDomain.WATERMARK)
IDLE = userstate.TimerSpec("idle", TimeDomain.REAL_TIME)


class Buffers(beam.DoFn):
    """Gathers strings; keys "a" and "c" have long ones, "b" has timers of processing time."""

    def process(
        self,
        element,
        at=beam.DoFn.TimestampParam,
        bag=beam.DoFn.StateParam(BAG),
        seen=beam.DoFn.StateParam(SEEN),
        total=beam.DoFn.StateParam(TOTAL),
        full=beam.DoFn.TimerParam(FULL),
        idle=beam.DoFn.TimerParam(IDLE),
    ):
        key, number = element
        before = list(bag.read())
        bag.add(str(number) * (9000 if key == "a" else 3))
        seen.add(str(number % 3) * (9000 if key == "c" else 3))
        seen.add(str(number))
        seen.add(str(number))
        total.add(number)
        if number % 7 == 0:
            bag.clear()
            bag.add("again")
            seen.clear()
            seen.add(str(number))
        if number % 11 == 0:
            bag.clear()
            seen.clear()
        full.set(at + 6)
        if key == "b":
            idle.clear("tag")
            idle.set(Timestamp(90), dynamic_timer_tag="tag" if number % 2 else "")
        idle.clear()
        yield shown(before), shown(bag.read()), shown(seen.read()), total.read()

    @userstate.on_timer(FULL)
    def on_full(
        self,
        key=beam.DoFn.KeyParam,
        bag=beam.DoFn.StateParam(BAG),
        seen=beam.DoFn.StateParam(SEEN),
        total=beam.DoFn.StateParam(TOTAL),
    ):
        yield "full", key, shown(bag.read()), shown(seen.read()), total.read()
        if total.read() % 2:
            bag.clear()
            total.clear()

    @userstate.on_timer(IDLE)
    def on_idle(self, key=beam.DoFn.KeyParam, bag=beam.DoFn.StateParam(BAG)):
        bag.add("idle")
        yield "idle", key, shown(bag.read())


def shown(strings):
    return [(text[:2], len(text)) for text in strings]


@pytest.mark.parametrize("memory", [1 << 28, 1 << 16])
@pytest.mark.parametrize("windowing", sorted(WINDOWS))
def test_bags_sets_and_timers_that_leave_records_make_what_beam_makes(
    windowing, memory, calls
) -> None:
    def build(p):
        steps = [
            [("a", 1, 1), ("b", 2, 1), ("c", 3, 1), ("d", 4, 1)],
            [("a", 5, 2), ("b", 6, 2), ("c", 7, 2), ("d", 8, 2)],
            [("a", 9, 2), ("b", 10, 3), ("c", 11, 3), ("c", 12, 3), ("a", 13, 3)],
            Mark(9),
            [("a", 14, 11), ("b", 15, 11), ("c", 16, 11), ("e", 17, 11)],
            Pass(100),
            [("a", 18, 12), ("b", 19, 12), ("c", 20, 12), ("e", 22, 12)],
            Mark(19),
            Pass(100),
            [("a", 23, 21), ("f", 24, 21)],
        ]
        pairs = pairs_in_rounds(*steps, windows=WINDOWS[windowing])
        return pairs(p) | beam.ParDo(Buffers()).with_output_types(object) | beam.Map(told)

    options = replace(DEFAULTS, memory_bytes=memory)
    found = emitted(build, options=replace(options, compiled=True))
    assert None not in calls
    assert any("idle" in each for each, *_ in found)
    with large_keys():
        assert sorted(found) == sorted(emitted(build, options=replace(options, compiled=False)))
