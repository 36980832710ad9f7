"""What a user reads when a stream goes wrong, and what time does that jumps."""

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import AsList
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import (
    FixedWindows,
    IntervalWindow,
    NonMergingWindowFn,
    WindowFn,
)
from apache_beam.utils.timestamp import Timestamp

from sparkdrain import SparkDrainRunner
from sparkdrain.errors import UnreadableState, UserCodeError
from sparkdrain.fnapi.harness import Outside
from sparkdrain.fnapi.harnesses import Harnesses, HarnessJob
from sparkdrain.hosts.service import Stopped
from sparkdrain.rounds.messages import RoundHeader
from sparkdrain.rounds.slots.service import SlotService
from sparkdrain.shuffle.outbox import ShuffleLayout
from sparkdrain.stages.telling.failure import TaskFailed, failure_in, failure_of
from tests.support.in_memory import run_in_memory
from tests.support.in_memory_rounds import DEFAULTS, run_in_rounds
from tests.support.restrictions import Count
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


class Hoards(beam.DoFn):
    """Keeps what it was given for a key, and uses it when the bundle is over."""

    SUM = userstate.ReadModifyWriteStateSpec("sum", VarIntCoder())
    BAG = userstate.BagStateSpec("bag", VarIntCoder())
    ALARM = userstate.TimerSpec("alarm", TimeDomain.WATERMARK)

    def __init__(self, use):
        self._use = use
        self._kept = None

    def process(
        self,
        pair,
        total=beam.DoFn.StateParam(SUM),
        bag=beam.DoFn.StateParam(BAG),
        alarm=beam.DoFn.TimerParam(ALARM),
    ):
        total.write(pair[1])
        bag.add(pair[1])
        alarm.set(Timestamp(5))
        self._kept = total, bag, alarm

    def finish_bundle(self):
        if self._kept is not None:
            self._use(*self._kept)

    @userstate.on_timer(ALARM)
    def ring(self):
        pass


class HoardsInScopes(Hoards):
    """The same, where keys are no records."""

    LIST = userstate.OrderedListStateSpec("list", VarIntCoder())

    def process(
        self,
        pair,
        total=beam.DoFn.StateParam(Hoards.SUM),
        bag=beam.DoFn.StateParam(Hoards.BAG),
        alarm=beam.DoFn.TimerParam(Hoards.ALARM),
        by_time=beam.DoFn.StateParam(LIST),
    ):
        by_time.add((Timestamp(1), pair[1]))
        super().process(pair, total, bag, alarm)


@pytest.mark.parametrize("dofn", [Hoards, HoardsInScopes])
@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda total, bag, alarm: total.write(7), id="a value is written"),
        pytest.param(lambda total, bag, alarm: total.clear(), id="a value is cleared"),
    ],
)
def test_state_that_is_changed_where_no_key_has_its_turn_is_not_lost_silently(run, dofn, use):
    with pytest.raises(UserCodeError, match=r"'sum' was changed where no key .*'Account"):
        run(dofn(use), [("a", 1, 3), ("b", 2, 3)])


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda total, bag, alarm: total.read(), id="a value is read"),
        pytest.param(lambda total, bag, alarm: bag.read(), id="a bag is read"),
        pytest.param(lambda total, bag, alarm: alarm.set(Timestamp(9)), id="a timer is set"),
        pytest.param(lambda total, bag, alarm: alarm.clear(), id="a timer is cleared"),
    ],
)
def test_nobody_gets_what_is_another_keys_where_no_key_has_its_turn(run, use):
    with pytest.raises(UserCodeError, match=r"was used where no key .*'Account"):
        run(Hoards(use), [("a", 1, 3), ("b", 2, 3)])


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


class Torn(WindowFn):
    """Windows of one second that cannot be merged, nor found for a window of another input."""

    def assign(self, context):
        if context.element is None:
            message = "no window fits"
            raise LookupError(message)
        return [IntervalWindow(context.timestamp, context.timestamp + 1)]

    def merge(self, merge_context):
        message = "torn"
        raise ArithmeticError(message)

    def get_window_coder(self):
        return IntervalWindowCoder()


class TornBeside(Torn, NonMergingWindowFn):
    def merge(self, merge_context):
        pass


def merging(pipeline):
    pairs = pipeline | beam.Create([("k7", 1)]) | beam.WindowInto(Torn())
    _ = pairs | "Group" >> beam.GroupByKey() | "Show" >> beam.Map(str)


def mapping(pipeline):
    beside = pipeline | "Other" >> beam.Create([1]) | "Torn" >> beam.WindowInto(TornBeside())
    main = pipeline | beam.Create([2]) | beam.WindowInto(FixedWindows(10))
    _ = main | "Join" >> beam.Map(lambda x, _: x, AsList(beside))


@pytest.mark.parametrize("run_it", [run_in_rounds, run_in_memory])
@pytest.mark.parametrize(
    ("build", "told"),
    [
        (merging, "ArithmeticError: torn [while running 'Group']"),
        (mapping, "LookupError: no window fits [while running 'Join']"),
    ],
)
def test_a_window_function_that_raises_between_steps_is_told_of_with_the_step_that_reads(
    run_it, build, told
):
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    build(pipeline)
    with pytest.raises((ArithmeticError, LookupError)) as raised:
        run_it(pipeline)
    failure = failure_of(raised.value, 0, 0, "this machine")
    assert failure.message == told
    assert failure.by_user


@pytest.mark.parametrize(
    "ends", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, BaseException]
)
def test_whatever_user_code_raises_is_told_of_with_its_slot_and_level(monkeypatch, tmp_path, ends):
    def run(*_):
        raise ends

    outside = Outside(HarnessJob("job", {}), Harnesses())
    service = SlotService(b"", ShuffleLayout(1, 3, 1), DEFAULTS, tmp_path, outside)
    service._slots[2] = SimpleNamespace(run=run)
    header = RoundHeader(1, 2, 0, 0, None, frozenset(), {}, (), False, 1.0, 10)
    with pytest.raises(TaskFailed) as failed:
        service.run(header.encode(), iter(()), lambda _: None)
    assert failure_in(str(failed.value)).level == 2


class Fatal(BaseException):
    pass


class Ends(beam.DoFn):
    """Ends as it is told to, in its own step and in no other."""

    LAST = userstate.ReadModifyWriteStateSpec("last", VarIntCoder())

    def __init__(self, ends) -> None:
        self._ends = ends

    def process(self, pair, last=beam.DoFn.StateParam(LAST)):
        last.write(1)
        raise self._ends


def ends(error, _) -> None:
    raise error


BEYOND = [Fatal("over"), SystemExit(3), KeyboardInterrupt(), GeneratorExit("over")]


@pytest.mark.parametrize("error", BEYOND, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("run_it", [run_in_memory, partial(run_in_rounds, slots=1)])
def test_what_is_no_exception_is_told_of_with_the_step_that_raised_it(run_it, error):
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    _ = (
        pipeline
        | beam.Create([(0, 3)])
        | "Gen" >> beam.ParDo(Count())
        | "Good" >> beam.Map(lambda x: x)
        | "Bad" >> beam.Map(partial(ends, error))
    )
    with pytest.raises(BaseException, match="while running 'Bad'") as raised:
        run_it(pipeline)
    failure = failure_of(raised.value, 0, 0, "this machine")
    assert failure.message.endswith("[while running 'Bad']")
    assert type(error).__name__ in failure.message
    assert failure.by_user


@pytest.mark.parametrize("error", BEYOND, ids=lambda error: type(error).__name__)
def test_what_is_no_exception_is_told_of_with_its_stateful_step_and_its_key(error):
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    pairs = pipeline | beam.Create([("k", 1)])
    _ = pairs | "Bad" >> beam.ParDo(Ends(error)) | "Good" >> beam.Map(lambda x: x)
    with pytest.raises(BaseException, match="while running 'Bad'") as raised:
        run_in_rounds(pipeline, slots=1)
    failure = failure_of(raised.value, 0, 0, "this machine")
    assert "[while running 'Bad']" in failure.message
    assert "[key 'k'" in failure.message


def test_a_task_that_is_given_up_is_not_told_of_as_an_error_of_a_step():
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    _ = pipeline | beam.Create([(0, 3)]) | beam.ParDo(Count()) | beam.Map(partial(ends, Stopped()))
    with pytest.raises(Stopped) as raised:
        run_in_rounds(pipeline, slots=1)
    assert not raised.value.args
