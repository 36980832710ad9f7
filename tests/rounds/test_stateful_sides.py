"""Stateful DoFns whose keys are records read of side inputs what Beam's own calls read."""

from __future__ import annotations

from dataclasses import replace

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.pvalue import AsDict, AsIter, AsList, AsMultiMap, AsSingleton
from apache_beam.testing import test_stream
from apache_beam.transforms import trigger, userstate, window
from apache_beam.transforms.timeutil import TimeDomain

from sparkdrain.shuffle.keyed_blocks import KeyedChunks
from tests.support.in_memory_rounds import DEFAULTS
from tests.support.recorded import emitted, emitted_in_rounds
from tests.support.scripts import Mark, pairs_in_rounds

pytestmark = pytest.mark.filterwarnings("ignore")

COUNT = userstate.ReadModifyWriteStateSpec("count", VarIntCoder())
OVER = userstate.TimerSpec("over", TimeDomain.WATERMARK)
WINDOWS = {
    "global": window.GlobalWindows(),
    "fixed": window.FixedWindows(10),
    "sliding": window.SlidingWindows(12, 4),
}


def untyped(side):
    """Beam takes any input of a DoFn, side inputs too, for the one that is to have pairs."""
    return side | "untyped" >> beam.Map(lambda value: value).with_output_types(object)


STEPS = [
    *([(f"k{key}", key + time, time) for key in range(8)] for time in (1, 2, 2)),
    Mark(5),
    [("k1", 5, 12), ("k1", 6, 12), ("k1", 7, 22), ("k2", 8, 11)],
    [(f"k{key}", key, 13) for key in range(8)],
    Mark(30),
    [(f"k{key}", key, 31) for key in range(8)],
]
READ = {
    "iterable": (AsIter, sorted),
    "list": (AsList, sorted),
    "dict": (AsDict, lambda side: sorted(side.items())),
    "multimap": (AsMultiMap, lambda side: (sorted(side["x"]), sorted(side["nobody"]))),
    "singleton": (lambda pairs: AsSingleton(untyped(pairs | beam.combiners.Count.Globally())), str),
}


class Enriches(beam.DoFn):
    """What ``process`` is given in every way there is; what timers are given has no side input."""

    def __init__(self, read) -> None:
        self.read = read

    def process(
        self,
        element,
        side,
        constant,
        w=beam.DoFn.WindowParam,
        count=beam.DoFn.StateParam(COUNT),
        named=beam.DoFn.SideInputParam,
        over=beam.DoFn.TimerParam(OVER),
        *,
        word,
    ):
        number = (count.read() or 0) + 1
        count.write(number)
        over.set(w.max_timestamp())
        yield element, number, self.read(side), constant, repr(w), sorted(named), word

    @userstate.on_timer(OVER)
    def on_over(self, key=beam.DoFn.KeyParam, count=beam.DoFn.StateParam(COUNT)):
        yield "over", key, count.read()
        count.clear()


def timed(pair):
    return window.TimestampedValue(pair, pair[1])


@pytest.mark.parametrize("view", sorted(READ))
@pytest.mark.parametrize(
    ("windowing", "memory"), [*((each, 1 << 28) for each in sorted(WINDOWS)), ("sliding", 4000)]
)
def test_side_inputs_are_what_beam_passes(windowing, view, memory, calls, monkeypatch) -> None:
    learned = []
    start = KeyedChunks.start
    monkeypatch.setattr(
        KeyedChunks, "start", lambda *args: learned.append(start(*args)) or learned[-1]
    )
    as_view, read = READ[view]

    def build(p):
        side = (
            p | "side" >> beam.Create([("x", 1), ("y", 13), ("x", 13), ("z", 35)]) | beam.Map(timed)
        )
        wide = window.GlobalWindows() if windowing == "global" else window.FixedWindows(20)
        if view == "singleton":
            wide = window.GlobalWindows()
        side = side | "wide" >> beam.WindowInto(wide)
        pairs = pairs_in_rounds(*STEPS, windows=WINDOWS[windowing])(p)
        dofn = beam.ParDo(Enriches(read), as_view(side), 7, AsIter(side), word="given")
        return pairs | dofn.with_output_types(object)

    options = replace(DEFAULTS, memory_bytes=memory)
    found = emitted(build, options=replace(options, compiled=True))
    assert len(found) > 30
    assert None not in calls
    assert any(learned) == (windowing != "sliding")
    expected = emitted(build, options=replace(options, compiled=False))
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


def test_a_side_input_that_changes_is_read_anew_in_each_round(calls) -> None:
    stream = test_stream.TestStream(output_tags=["main", "side"])
    expected = []
    for value in range(4):
        stream.add_elements([("x", value)], tag="side")
        stream.add_elements([(f"k{key}", value) for key in range(9)], tag="main")
        expected.append([(f"k{key}", value, value + 1, ("x", value)) for key in range(9)])
    stream.advance_watermark_to_infinity("main").advance_watermark_to_infinity("side")

    def build(p):
        streams = p | stream
        side = streams["side"] | beam.WindowInto(
            window.GlobalWindows(),
            trigger=trigger.Repeatedly(trigger.AfterCount(1)),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        )
        return streams["main"] | beam.ParDo(Latest(), side=AsSingleton(side))

    rounds = emitted_in_rounds(build, options=replace(DEFAULTS, compiled=True))
    assert [sorted(each) for each in rounds if each] == expected
    assert None not in calls


class Latest(beam.DoFn):
    def process(self, element, count=beam.DoFn.StateParam(COUNT), side=None):
        count.write((count.read() or 0) + 1)
        yield *element, count.read(), side


class Looks(beam.DoFn):
    def process(self, element, side, count=beam.DoFn.StateParam(COUNT)):
        count.write(1)
        yield side["nobody"]


@pytest.mark.parametrize("view", [AsSingleton, AsDict])
def test_an_error_of_a_side_input_is_that_of_beams_call_and_names_step_and_key(view, calls) -> None:
    def build(p):
        side = view(p | beam.Create([("x", 5), ("y", 6)]))
        pairs = pairs_in_rounds([(f"k{key}", key, 1) for key in range(4)])
        return pairs(p) | "Looks" >> beam.ParDo(Looks(), side).with_output_types(int)

    told = []
    for compiled in (True, False):
        with pytest.raises(Exception, match="while running 'Looks'") as raised:
            emitted(build, slots=1, options=replace(DEFAULTS, compiled=compiled))
        told.append((type(raised.value), raised.value.args))
        assert any("key 'k" in note for note in raised.value.__notes__)
    assert told[0] == told[1]
    assert calls
    assert None not in calls
