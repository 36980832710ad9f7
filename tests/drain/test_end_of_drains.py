"""Windows fire as at the end of all input; and the end of a drain comes step by step."""

from __future__ import annotations

import functools

import apache_beam as beam
import pytest
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.transforms import trigger
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    IntervalWindow,
    NonMergingWindowFn,
    Sessions,
    SlidingWindows,
)
from apache_beam.utils.windowed_value import PaneInfoTiming, WindowedValue

from sparkdrain.drain.phases import DrainPhase
from sparkdrain.io.stable import StableParDo
from sparkdrain.rounds.driver.durable import DurableJob
from sparkdrain.rounds.slots import service
from tests.support.at_once import AtOnce
from tests.support.drained import emitted_when_drained
from tests.support.endless import numbers
from tests.support.restrictions import LeapingClock
from tests.support.scripts import Mark, Pass, pairs_in_rounds

ACC = trigger.AccumulationMode.ACCUMULATING
DIS = trigger.AccumulationMode.DISCARDING
TIMING = {getattr(PaneInfoTiming, name): name for name in ("EARLY", "ON_TIME", "LATE", "UNKNOWN")}


class Weekly(NonMergingWindowFn):
    """Windows of one's own."""

    def assign(self, context):
        start = int(context.timestamp) // 7 * 7
        return [IntervalWindow(start, start + 7)]

    def get_window_coder(self):
        return IntervalWindowCoder()


class Panes(beam.DoFn):
    def process(self, element, window=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam):
        start = int(window.start) if isinstance(window, IntervalWindow) else None
        yield start, sorted(element[1]), TIMING[pane.timing], pane.index, pane.is_last


def panes(*steps, after, windows, **windowing):
    """The panes before the drain, and those of it; the elements of each, sorted."""
    windowing.setdefault("trigger", trigger.DefaultTrigger())
    windowing.setdefault("accumulation_mode", DIS)
    make = pairs_in_rounds(*steps, windows=windows, **windowing)
    before, rest = emitted_when_drained(
        lambda p: make(p) | beam.GroupByKey() | beam.ParDo(Panes()), after, slots=1
    )
    order = functools.partial(sorted, key=lambda pane: (pane[0] or 0, pane[3]))
    return order(before), order(rest)


EARLY = {"trigger": trigger.AfterWatermark(early=trigger.AfterCount(2))}
STEPS = [("a", 1, 1), ("a", 2, 2)], [("a", 3, 3)], [("a", 11, 11)]


@pytest.mark.parametrize(
    ("windows", "windowing", "before", "rest"),
    [
        (
            FixedWindows(10),
            {},
            [],
            [(0, [1, 2, 3], "ON_TIME", 0, True), (10, [11], "ON_TIME", 0, True)],
        ),
        (
            FixedWindows(10),
            {**EARLY, "accumulation_mode": DIS},
            [(0, [1, 2], "EARLY", 0, False)],
            [(0, [3], "ON_TIME", 1, True), (10, [11], "ON_TIME", 0, True)],
        ),
        (
            FixedWindows(10),
            {**EARLY, "accumulation_mode": ACC},
            [(0, [1, 2], "EARLY", 0, False)],
            [(0, [1, 2, 3], "ON_TIME", 1, True), (10, [11], "ON_TIME", 0, True)],
        ),
        (
            SlidingWindows(10, 5),
            {},
            [],
            [
                (-5, [1, 2, 3], "ON_TIME", 0, True),
                (0, [1, 2, 3], "ON_TIME", 0, True),
                (5, [11], "ON_TIME", 0, True),
                (10, [11], "ON_TIME", 0, True),
            ],
        ),
        (
            Sessions(5),
            {},
            [],
            [(1, [1, 2, 3], "ON_TIME", 0, True), (11, [11], "ON_TIME", 0, True)],
        ),
        (
            Weekly(),
            {},
            [],
            [(0, [1, 2, 3], "ON_TIME", 0, True), (7, [11], "ON_TIME", 0, True)],
        ),
        (
            GlobalWindows(),
            {"trigger": trigger.Repeatedly(trigger.AfterCount(100))},
            [],
            [(None, [1, 2, 3, 11], "ON_TIME", 0, True)],
        ),
        (
            GlobalWindows(),
            {"trigger": trigger.Repeatedly(trigger.AfterProcessingTime(3600))},
            [],
            [(None, [1, 2, 3, 11], "ON_TIME", 0, True)],
        ),
    ],
    ids=[
        "fixed",
        "early",
        "accumulating",
        "sliding",
        "sessions",
        "own",
        "never enough",
        "by the clock",
    ],
)
def test_windows_that_are_open_fire_as_at_the_end_of_all_input(windows, windowing, before, rest):
    assert panes(*STEPS, after=4, windows=windows, **windowing) == (before, rest)


@pytest.mark.parametrize("lateness", [0, 100])
def test_a_window_that_has_fired_fires_again_only_if_something_came_since(lateness):
    steps = [("a", 1, 1), ("a", 11, 11)], Mark(10), Pass(1)
    windowing = {"windows": FixedWindows(10), "allowed_lateness": lateness}
    before, rest = panes(*steps, after=4, **windowing)
    assert [pane[:3] for pane in before] == [(0, [1], "ON_TIME")]
    assert [pane[:3] for pane in rest] == [(10, [11], "ON_TIME")]
    if lateness:
        firing = {"trigger": trigger.AfterWatermark(late=trigger.AfterCount(5))}
        steps = [("a", 1, 1)], Mark(10), [("a", 2, 2)]
        before, rest = panes(*steps, after=4, **windowing, **firing)
        assert [pane[:3] for pane in before] == [(0, [1], "ON_TIME")]
        assert [pane[:4] for pane in rest] == [(0, [2], "LATE", 1)]


# --- step by step -------------------------------------------------------------------------------

STEPS_OF_END: list = []


def note(what) -> None:
    STEPS_OF_END.append(what)


class Hooked(beam.DoFn):
    """Tells that it processes; when it is drained; and asks to be told that that is safe."""

    def process(self, element, finalizer=beam.DoFn.BundleFinalizerParam):
        note("process")
        finalizer.register(functools.partial(note, "acknowledged"))
        yield element

    def on_drain(self):
        note("hook")
        yield WindowedValue(("from the hook", 0), 0, (GlobalWindows.windowed_value(0).windows[0],))


class Sink(beam.DoFn):
    """Has effects outside; it waits for checkpoints, so what comes never comes otherwise again."""

    def process(self, element):
        note("hook's element at the sink" if element[0] == "from the hook" else "sink")


LAST = (DrainPhase.PUBLISHING, DrainPhase.DRAINED)


def test_the_end_comes_in_this_order(tmp_path, monkeypatch):
    """Hooks, sinks, state and place of sources, those outside, the end."""
    monkeypatch.setattr(service, "Uploader", AtOnce)
    STEPS_OF_END.clear()

    class Noting(DurableJob):
        last = None

        def publish(self, cut) -> None:
            super().publish(cut)
            self.last = cut

        def is_published(self) -> bool:
            published = super().is_published()
            if published and self.last is not None and self.last.phase in LAST:
                note(self.last.phase.name)
                self.last = None
            return published

    known = DurableJob.at(str(tmp_path), "job", "run", {}, 1, 2)
    durable = Noting(known.storage, known.paths, "run", {}, 1, 2)
    emitted_when_drained(
        lambda p: p | numbers_() | beam.ParDo(Hooked()) | StableParDo(Sink()),
        3,
        durable=durable,
        slots=1,
        clock=LeapingClock(),
    )
    end = STEPS_OF_END[STEPS_OF_END.index("hook") :]
    assert end.count("hook") == end.count("hook's element at the sink") == 1
    assert "process" not in end
    first = [what for number, what in enumerate(end) if what not in end[:number]]
    assert [what for what in first if what not in ("sink", "acknowledged")] == [
        "hook",
        "hook's element at the sink",
        "PUBLISHING",
        "DRAINED",
    ]
    assert end[-1] == "DRAINED"
    assert STEPS_OF_END.count("sink") == STEPS_OF_END.count("process")
    assert STEPS_OF_END.count("acknowledged") == STEPS_OF_END.count("process")


def numbers_():
    return beam.ptransform_fn(numbers("a"))()
