"""Generated calls of a stateful DoFn pass what Beam passes, and do with results what Beam does."""

from __future__ import annotations

from dataclasses import replace

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.pvalue import AsSingleton, TaggedOutput
from apache_beam.transforms import userstate, window
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.harness import stateful
from tests.support.in_memory_rounds import DEFAULTS
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


@pytest.fixture
def calls(monkeypatch):
    """What was generated, or left to Beam."""
    found = []
    generate = stateful.stateful_calls
    monkeypatch.setattr(
        "sparkdrain.harness.bundle.stateful_calls",
        lambda *args: found.append(generate(*args)) or found[-1],
    )
    return found


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


class WithSide(beam.DoFn):
    def process(self, element, side, count=beam.DoFn.StateParam(COUNT)):
        yield element, side


def test_side_inputs_are_left_to_beam(calls) -> None:
    def build(p):
        # Beam may take the side input for the input, whose type it looks at: both are pairs.
        side = AsSingleton(p | beam.Create([("five", 5)]))
        return pairs_in_rounds([("a", 1, 1)])(p) | beam.ParDo(WithSide(), side)

    assert emitted(build) == [(("a", 1), ("five", 5))]
    assert set(calls) <= {None}
