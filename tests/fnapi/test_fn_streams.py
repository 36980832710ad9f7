"""Streaming jobs whose stages run in a harness of a pool, in threads of this process."""

from __future__ import annotations

import threading

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.testing import test_stream
from apache_beam.transforms import trigger, userstate, window
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.errors import TruncatedInput
from sparkdrain.fnapi import harness as fn_harness
from sparkdrain.rounds.slots import input_for
from sparkdrain.stages.shards.codings import Codings

TIME, REAL = userstate.TimeDomain.WATERMARK, userstate.TimeDomain.REAL_TIME
SEEN: list = []
DIED: list = []
RUNNING: list = []


@pytest.fixture
def run(stream):
    def run(build, *more, **settings):
        SEEN.clear()
        stream(build, *more, **settings)
        return sorted(SEEN, key=repr)

    return run


def _see(element):
    # Slots work in this thread, harnesses in others.
    assert threading.current_thread() is not threading.main_thread()
    SEEN.append(element)


def _at(key, *times):
    return [window.TimestampedValue((key, time), time) for time in times]


def _stream(pipeline, *parts):
    """Elements, and between them the times that the watermark goes to; then the end."""
    stream = test_stream.TestStream(coder=coders.FastPrimitivesCoder())
    for part in parts:
        if isinstance(part, list):
            stream = stream.add_elements(part)
        else:
            stream = stream.advance_watermark_to(part)
    return pipeline | stream.advance_watermark_to_infinity()


def test_a_script_may_have_a_coder_that_only_the_harness_knows(run, monkeypatch):
    def unknown(_self, id_):
        raise KeyError(id_)

    monkeypatch.setattr(Codings, "coder_of", unknown)
    seen = run(lambda pipeline: _stream(pipeline, _at("a", 1, 2)) | beam.Map(_see))
    assert seen == [("a", 1), ("a", 2)]


@pytest.mark.parametrize(
    ("urn", "value"), [("beam:coder:string_utf8:v1", b"ab"), ("beam:coder:bytes:v1", b"\2\1\0")]
)
def test_scripts_of_go_have_a_length_before_texts_and_bytes(urn, value):
    coder = beam_runner_api_pb2.Coder()
    coder.spec.urn = urn
    decode, encode = input_for.codecs_of_go(coder)
    assert encode(decode(bytes([len(value)]) + value)) == value


def test_scripts_of_go_have_all_else_as_it_is_sent():
    coder = beam_runner_api_pb2.Coder()
    coder.spec.urn = "beam:coder:length_prefix:v1"
    decode, encode = input_for.codecs_of_go(coder)
    assert encode(decode(b"\2\xb6\1")) == b"\2\xb6\1"


def _windows(size=5, **how):
    return beam.WindowInto(window.FixedWindows(size), **how)


def _start(pair, of=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam):
    return pair[0], sorted(pair[1]), float(of.start), pane.index


def test_windows_of_a_stream_are_grouped_when_they_end(run):
    def build(pipeline):
        parts = _at("a", 1, 2), _at("b", 3), 5, _at("a", 7), 10, _at("a", 12)
        grouped = _stream(pipeline, *parts) | _windows() | beam.GroupByKey()
        return grouped | beam.Map(_start) | beam.Map(_see)

    assert run(build) == [
        ("a", [1, 2], 0.0, 0),
        ("a", [12], 10.0, 0),
        ("a", [7], 5.0, 0),
        ("b", [3], 0.0, 0),
    ]


def test_panes_have_what_their_trigger_says_and_late_elements_are_dropped(run):
    def build(pipeline):
        how = {
            "trigger": trigger.AfterWatermark(late=trigger.AfterCount(1)),
            "accumulation_mode": trigger.AccumulationMode.ACCUMULATING,
            "allowed_lateness": 10,
        }
        parts = _at("a", 1, 2), 5, _at("a", 3), 20, _at("a", 4)
        grouped = _stream(pipeline, *parts) | _windows(**how) | beam.GroupByKey()
        return grouped | beam.Map(_start) | beam.Map(_see)

    assert run(build) == [("a", [1, 2, 3], 0.0, 1), ("a", [1, 2], 0.0, 0)]


def _with_sides(pair, by_key, all_):
    return pair, by_key["a"], list(all_)


def test_side_inputs_of_a_window_hold_its_elements_back(run):
    def build(pipeline):
        names = _stream(pipeline, _at("a", 1), 5, _at("a", 6), 10) | "Names" >> _windows()
        main = (
            pipeline
            | "Main" >> Stamped([("x", 2), ("y", 7)])
            | "Main windows" >> _windows()
            | beam.Map(
                _with_sides,
                beam.pvalue.AsDict(names),
                beam.pvalue.AsIter(names),
            )
        )
        return main | beam.Map(_see)

    assert run(build) == [(("x", 2), 1, [("a", 1)]), (("y", 7), 6, [("a", 6)])]


def test_side_inputs_of_a_window_hold_its_groups_back(run):
    def build(pipeline):
        names = _stream(pipeline, _at("a", 1), 5, _at("a", 6), 10) | "Names" >> _windows()
        main = pipeline | Stamped([("x", 2), ("x", 3), ("y", 7)]) | "Main" >> _windows()
        sized = main | beam.GroupByKey() | beam.Map(_with_all, beam.pvalue.AsIter(names))
        return sized | beam.Map(_see)

    assert run(build) == [("x", [2, 3], [("a", 1)]), ("y", [7], [("a", 6)])]


def _with_all(group, all_):
    return group[0], sorted(group[1]), list(all_)


class Stamped(beam.PTransform):
    """A bounded input with times."""

    def __init__(self, pairs):
        super().__init__()
        self._pairs = pairs

    def expand(self, begin):
        stamped = beam.Map(lambda pair: window.TimestampedValue(pair, pair[1]))
        return begin | beam.Create(self._pairs) | stamped


class _Quiet(beam.DoFn):
    """Tells the sum when nothing came for five seconds."""

    TOTAL = userstate.CombiningValueStateSpec("total", sum)
    IDLE = userstate.TimerSpec("idle", TIME)

    def process(
        self,
        pair,
        time=beam.DoFn.TimestampParam,
        total=beam.DoFn.StateParam(TOTAL),
        idle=beam.DoFn.TimerParam(IDLE),
    ):
        total.add(pair[1])
        idle.set(time + 5)

    @userstate.on_timer(IDLE)
    def on_idle(
        self,
        key=beam.DoFn.KeyParam,
        time=beam.DoFn.TimestampParam,
        total=beam.DoFn.StateParam(TOTAL),
    ):
        yield key, total.read(), float(time)
        total.clear()


def _quiet(pipeline):
    parts = _at("a", 1, 2), _at("b", 3), 6, _at("a", 6), 9, _at("b", 10), 12, _at("a", 13)
    return _stream(pipeline, *parts) | beam.ParDo(_Quiet()) | beam.Map(_see)


QUIET = [("a", 13, 18.0), ("a", 9, 11.0), ("b", 10, 15.0), ("b", 3, 8.0)]


def test_state_and_timers_of_keys_live_from_round_to_round(run):
    assert run(_quiet) == QUIET


def test_a_round_that_was_undone_leaves_nothing_in_state_and_timers(run):
    """The last level of each round fails once, when state and timers have changed."""
    failed = set()

    def fail(header):
        if header.level and header.number not in failed and header.slot:
            failed.add(header.number)
            message = "lost"
            raise TruncatedInput(message)

    def build(pipeline):
        parts = _at("a", 1, 2), _at("b", 3), 6, _at("a", 6), 9, _at("b", 10), 12, _at("a", 13)
        found = _stream(pipeline, *parts) | beam.ParDo(_Quiet()) | beam.Reshuffle()
        return found | beam.Map(_see)

    assert run(build, fail=fail) == QUIET
    assert failed


def _die(pair):
    if pair[1] == 6 and not DIED:
        DIED.append(1)
        for kept in RUNNING[0]._kept.values():
            kept.worker.is_lost = True
    return pair


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_harness_that_dies_amid_a_round_is_replaced_and_the_round_replayed(run, harnesses):
    DIED.clear()
    RUNNING[:] = [harnesses]

    def build(pipeline):
        parts = _at("a", 1, 2), _at("b", 3), 6, _at("a", 6), 9, _at("b", 10), 12, _at("a", 13)
        pairs = _stream(pipeline, *parts) | beam.Map(_die)
        found = pairs | beam.ParDo(_Quiet()) | beam.Reshuffle()
        return found | beam.Map(_see)

    assert run(build) == QUIET
    assert DIED


class _Counts(beam.DoFn):
    COUNT = userstate.CombiningValueStateSpec("count", sum)

    def process(self, pair, of=beam.DoFn.WindowParam, count=beam.DoFn.StateParam(COUNT)):
        count.add(1)
        yield pair[0], float(of.start), count.read()


def test_state_of_a_window_is_forgotten_when_the_window_is_over(run):
    def build(pipeline):
        parts = _at("a", 1, 2), 5, _at("a", 6), 10, _at("b", 11), 12
        counted = _stream(pipeline, *parts) | _windows() | beam.ParDo(_Counts())
        return counted | beam.Map(_see)

    assert run(build) == [("a", 0.0, 1), ("a", 0.0, 2), ("a", 5.0, 1), ("b", 10.0, 1)]


class _Clock(beam.DoFn):
    SOON = userstate.TimerSpec("soon", REAL)

    def process(self, pair, soon=beam.DoFn.TimerParam(SOON)):
        soon.set(Timestamp.now() + 0.2)

    @userstate.on_timer(SOON)
    def on_soon(self, key=beam.DoFn.KeyParam):
        yield key


def test_timers_of_the_clock_fire(run):
    def build(pipeline):
        return pipeline | Stamped([("a", 3), ("b", 4)]) | beam.ParDo(_Clock()) | beam.Map(_see)

    assert run(build) == ["a", "b"]


@pytest.mark.parametrize("java", [True, False])
def test_windows_have_a_last_pane_in_any_case_if_java_says_so(run, monkeypatch, java):
    """Python says so of all windows, and does not mean it."""
    monkeypatch.setattr(input_for, "is_java", lambda _: java)

    def build(pipeline):
        windows = beam.WindowInto(
            window.FixedWindows(10),
            trigger=trigger.AfterWatermark(late=trigger.AfterCount(1)),
            accumulation_mode=trigger.AccumulationMode.ACCUMULATING,
            allowed_lateness=5,
        )
        parts = _at("a", 1), 12, _at("a", 2), 20
        grouped = _stream(pipeline, *parts) | windows | beam.GroupByKey()
        _ = grouped | beam.MapTuple(lambda key, found: _see((key, sorted(found))))

    assert run(build) == [("a", [1, 2])] * (1 + java) + [("a", [1])]


class _Counted(beam.DoFn):
    COUNT = userstate.CombiningValueStateSpec("count", sum)

    def process(self, pair, count=beam.DoFn.StateParam(COUNT)):
        count.add(1)
        _see(pair[1])


def test_what_one_call_makes_for_a_key_stays_in_its_order_through_a_reshuffle(run):
    def build(pipeline):
        pairs = beam.FlatMap(lambda _: (("a", number) for number in range(30)))
        pairs = _stream(pipeline, _at("a", 1)) | pairs.with_output_types(tuple[str, int])
        return pairs | beam.Reshuffle() | beam.ParDo(_Counted())

    run(build)
    assert list(range(30)) == SEEN


class _Later(beam.DoFn):
    LATER = userstate.TimerSpec("later", REAL)

    def process(self, pair, later=beam.DoFn.TimerParam(LATER)):
        _see(pair[1])
        if pair[1] == 1:
            later.set(Timestamp.now() + 5)

    @userstate.on_timer(LATER)
    def on_later(self):
        _see("later")


@pytest.mark.parametrize(
    ("java", "seen"), [(True, [1, 2, "later", 3]), (False, [1, 2, 3, "later"])]
)
def test_timers_by_the_clock_of_java_follow_the_clock_of_a_script(run, monkeypatch, java, seen):
    """Java tells how long it is until then, and other SDKs tell when."""
    monkeypatch.setattr(fn_harness, "is_java", lambda _: java)

    def build(pipeline):
        stream = test_stream.TestStream(coder=coders.FastPrimitivesCoder())
        for number in (1, 2, 3):
            stream = stream.add_elements([("a", number)]).advance_processing_time(3)
        pairs = pipeline | stream.advance_watermark_to_infinity()
        pairs |= beam.Map(tuple).with_output_types(tuple[str, int])
        return pairs | beam.ParDo(_Later())

    run(build)
    assert seen == SEEN
