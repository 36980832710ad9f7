"""What a user reads when a stream goes wrong, and what time does that jumps."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Timestamp

from sparkdrain import SparkDrainRunner
from sparkdrain.errors import UnreadableState, UserCodeError
from sparkdrain.rounds import clock
from sparkdrain.types import CancelToken
from tests.support.rounds_engine import RoundsEngine
from tests.support.scripts import Pass, pairs_in_rounds

SECOND = 1_000_000


@pytest.fixture
def run(in_process):
    in_process(RoundsEngine())

    def run(dofn, *steps, **windowing):
        pipeline = beam.Pipeline(SparkDrainRunner(), PipelineOptions(["--streaming"]))
        _ = pairs_in_rounds(*steps, **windowing)(pipeline) | "Account" >> beam.ParDo(dofn)
        pipeline.run().wait_until_finish()

    return run


class Strict(beam.DoFn):
    ALARM = userstate.TimerSpec("alarm", TimeDomain.WATERMARK)

    def process(self, pair, alarm=beam.DoFn.TimerParam(ALARM)):
        if pair[1] < 0:
            message = "overdrawn"
            raise ValueError(message)
        alarm.set(Timestamp(5), dynamic_timer_tag="first")

    @userstate.on_timer(ALARM)
    def ring(self):
        message = "nobody is at home"
        raise LookupError(message)


@pytest.mark.parametrize(
    ("number", "first", "others"),
    [
        (-1, "ValueError: overdrawn", ["key 'k7'", "window [0.0, 10.0)"]),
        (
            1,
            "LookupError: nobody is at home",
            ["key 'k7'", "window [0.0, 10.0)", "timer 'alarm', tag 'first'"],
        ),
    ],
)
def test_a_callback_that_raises_comes_first_then_its_step_key_window_and_timer(
    run, number, first, others
):
    with pytest.raises(UserCodeError) as caught:
        run(Strict(), [("k7", number, 3)], windows=FixedWindows(10))
    told = str(caught.value)
    assert told.startswith(first)
    assert "[while running 'Account" in told.splitlines()[0]
    for part in others:
        assert part in told


class Older(beam.coders.Coder):
    """Writes what it cannot read."""

    def encode(self, value):
        return b"\xff" + value.encode()

    def decode(self, encoded):
        return encoded.decode()


class Changed(beam.DoFn):
    TOTAL = userstate.ReadModifyWriteStateSpec("total", Older())

    def process(self, pair, total=beam.DoFn.StateParam(TOTAL)):
        total.read()
        total.write(str(pair[1]))


def test_state_that_cannot_be_read_is_an_error_of_its_own_kind(run):
    with pytest.raises(UnreadableState) as caught:
        run(Changed(), [("k7", 1, 3)], [("k7", 1, 4)])
    for part in ("'total'", "key 'k7'", "GlobalWindow", "Account", "another coder"):
        assert part in str(caught.value)


INT = beam.coders.VarIntCoder()
AGE = userstate.ReadModifyWriteStateSpec("age", INT)
AGES = userstate.BagStateSpec("age", INT)
SET = userstate.SetStateSpec("age", INT)
SUM = userstate.CombiningValueStateSpec("age", INT, sum)
LIST = userstate.OrderedListStateSpec("age", INT)


class Writes(beam.DoFn):
    """Writes a text where numbers belong."""

    def process(self, pair, age=beam.DoFn.StateParam(AGE)):
        age.write("seven")


class Adds(beam.DoFn):
    def process(self, pair, age=beam.DoFn.StateParam(AGES)):
        age.add("seven")


class AddsToSet(beam.DoFn):
    def process(self, pair, age=beam.DoFn.StateParam(SET)):
        age.add("seven")


class AddsToSum(beam.DoFn):
    def process(self, pair, age=beam.DoFn.StateParam(SUM)):
        age.add(7)
        age.add("seven")


class AddsToList(beam.DoFn):
    def process(self, pair, age=beam.DoFn.StateParam(LIST)):
        age.add((Timestamp(1), "seven"))


@pytest.mark.parametrize("dofn", [Writes, Adds, AddsToSet, AddsToSum, AddsToList])
def test_a_value_that_does_not_fit_its_state_names_the_state(run, dofn):
    with pytest.raises(UserCodeError) as caught:
        run(dofn(), [("k7", 1, 3)])
    assert str(caught.value).startswith("TypeError: ")
    for part in ("state 'age'", "key 'k7'", "GlobalWindow", "Account"):
        assert part in str(caught.value)


def test_a_wait_ends_soon_after_the_clock_was_put_forward(monkeypatch):
    hour = 3600 * SECOND
    times = iter([100 * SECOND, 101 * SECOND, 101 * SECOND + hour])
    waits = []
    monkeypatch.setattr(clock.time, "time_ns", lambda: next(times) * 1000)
    monkeypatch.setattr(CancelToken, "wait", lambda self, seconds=None: waits.append(seconds))
    told = clock.WallClock()
    told.wait_until(100 * SECOND + hour, CancelToken())
    assert len(waits) == 2
    # Nobody waits for longer than a second without a look at the clock.
    assert max(waits) <= 1


RUNG: list = []


class Rings(beam.DoFn):
    BELL = userstate.TimerSpec("bell", TimeDomain.REAL_TIME)

    def process(self, pair, bell=beam.DoFn.TimerParam(BELL)):
        for seconds in (30, 10, 20):
            bell.set(Timestamp(seconds), dynamic_timer_tag=str(seconds))

    @userstate.on_timer(BELL)
    def ring(self, tag=beam.DoFn.DynamicTimerTagParam):
        RUNG.append(tag)


def test_timers_that_a_jump_of_the_clock_passes_fire_once_each_and_in_order(run):
    RUNG.clear()
    run(Rings(), [("k7", 1, 3)], Pass(100_000), [("k8", 1, 4)], Pass(1))
    assert RUNG == ["10", "20", "30"] * 2
