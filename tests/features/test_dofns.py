from __future__ import annotations

import json
import uuid
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.transforms import userstate, window
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.utils.timestamp import Timestamp
from engines import gives, spark_pipeline


class _Diary(beam.DoFn):
    """Writes down its life, one file per instance; fails at the moment it is told to."""

    def __init__(self, directory, fails_in=""):
        self._directory = directory
        self._fails_in = fails_in

    def _note(self, event):
        with open(self._file, "a") as file:
            file.write(json.dumps(event) + "\n")
        if event == self._fails_in:
            msg = f"fails in {event}"
            raise ValueError(msg)

    def setup(self):
        self._file = f"{self._directory}/{uuid.uuid4().hex}"
        self._note("setup")

    def start_bundle(self):
        self._note("start_bundle")

    def process(self, element):
        self._note("process")
        yield element

    def finish_bundle(self):
        self._note("finish_bundle")

    def teardown(self):
        self._note("teardown")


def _lives(directory):
    return [list(map(json.loads, path.read_text().split())) for path in Path(directory).iterdir()]


def _without_elements(life):
    return [event for event in life if event != "process"]


WHOLE = ["setup", "start_bundle", "finish_bundle", "teardown"]


def test_every_instance_lives_a_whole_life(pipeline, tmp_path):
    def build(p):
        return p | beam.Create([1, 2, 3]) | beam.ParDo(_Diary(str(tmp_path)))

    gives(pipeline, build, [1, 2, 3])
    lives = _lives(tmp_path)
    assert [_without_elements(life) for life in lives] == [WHOLE] * len(lives)
    assert sum(life.count("process") for life in lives) == 3


@pytest.mark.parametrize("moment", ["start_bundle", "process", "finish_bundle"])
def test_an_instance_that_fails_is_torn_down(pipeline, tmp_path, moment):
    with pytest.raises(Exception, match=f"fails in {moment}"), pipeline as p:
        _ = p | beam.Create([1]) | beam.ParDo(_Diary(str(tmp_path), moment))
    lives = _lives(tmp_path)
    assert lives
    assert all(life[-1] == "teardown" for life in lives)


@pytest.mark.parametrize("moment", ["setup", "teardown"])
def test_a_failure_in_setup_or_teardown_fails_the_job(pipeline, tmp_path, moment):
    with pytest.raises(Exception, match=f"fails in {moment}"), pipeline as p:
        _ = p | beam.Create([1]) | beam.ParDo(_Diary(str(tmp_path), moment))


def test_the_failure_of_one_dofn_tears_down_all_others(pipeline, tmp_path):
    with pytest.raises(Exception, match="fails in process"), pipeline as p:
        elements = p | beam.Create([1])
        before = elements | "before" >> beam.ParDo(_Diary(str(tmp_path)))
        _ = before | "failing" >> beam.ParDo(_Diary(str(tmp_path), "process"))
        _ = elements | "beside" >> beam.ParDo(_Diary(str(tmp_path)))
    lives = _lives(tmp_path)
    assert len(lives) >= 3
    assert all(life[-1] == "teardown" for life in lives)


def test_a_failure_in_setup_tears_down_those_that_were_set_up(pipeline, tmp_path):
    with pytest.raises(Exception, match="fails in setup"), pipeline as p:
        first = p | beam.Create([1]) | "first" >> beam.ParDo(_Diary(str(tmp_path), "setup"))
        _ = first | "second" >> beam.ParDo(_Diary(str(tmp_path)))
    lives = _lives(tmp_path)
    assert lives
    assert all(life == ["setup", "teardown"] for life in lives)


def test_where_no_element_comes_nothing_is_set_up(pipeline, tmp_path):
    with pipeline as p:
        nothing = p | beam.Create([1]) | beam.Filter(lambda _: False) | beam.Reshuffle()
        _ = nothing | beam.ParDo(_Diary(str(tmp_path)))
    assert _lives(tmp_path) == []


class _EmitsAtTheEnd(beam.DoFn):
    def process(self, element, w=beam.DoFn.WindowParam):
        self._window = w

    def finish_bundle(self):
        if hasattr(self, "_window"):
            yield window.WindowedValue(("k", "end"), self._window.start, [self._window])


def test_what_finish_bundle_emits_has_the_window_it_says(pipeline):
    def build(p):
        timed = p | beam.Create([7]) | beam.Map(lambda t: window.TimestampedValue(t, t))
        ends = timed | beam.WindowInto(window.FixedWindows(5)) | beam.ParDo(_EmitsAtTheEnd())
        counts = ends | beam.combiners.Count.PerKey()
        return counts | beam.Map(lambda e, w=beam.DoFn.WindowParam: (*e, float(w.start)))

    gives(pipeline, build, [("k", 1, 5.0)])


class _Finalized(beam.DoFn):
    def __init__(self, directory):
        self._directory = directory

    def process(self, element, finalizer=beam.DoFn.BundleFinalizerParam):
        path = f"{self._directory}/{element}"
        finalizer.register(lambda: Path(path).touch(exist_ok=False))
        yield element


def test_finalizers_run_once_when_all_went_well(pipeline, tmp_path):
    def build(p):
        return p | beam.Create(["a", "b"]) | beam.ParDo(_Finalized(str(tmp_path)))

    gives(pipeline, build, ["a", "b"])
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}


def test_no_finalizer_runs_in_a_bundle_that_fails(pipeline, tmp_path):
    with pytest.raises(Exception, match="division"), pipeline as p:
        named = p | beam.Create(["a"]) | beam.ParDo(_Finalized(str(tmp_path)))
        _ = named | beam.Map(lambda _: 1 // 0)
    assert not list(tmp_path.iterdir())


class _Params(beam.DoFn):
    def process(
        self,
        element,
        more,
        t=beam.DoFn.TimestampParam,
        w=beam.DoFn.WindowParam,
        pane=beam.DoFn.PaneInfoParam,
        *,
        named,
    ):
        yield element, more, float(t), str(w), pane.index, named


def test_every_parameter_of_process(pipeline):
    def build(p):
        timed = p | beam.Create([7]) | beam.Map(lambda t: window.TimestampedValue(t, t))
        windowed = timed | beam.WindowInto(window.FixedWindows(5))
        return windowed | beam.ParDo(_Params(), "more", named="named")

    gives(pipeline, build, [(7, "more", 7.0, "[5.0, 10.0)", 0, "named")])


def test_a_dofn_may_yield_a_buffer_that_it_uses_again(pipeline):
    def reuse(n):
        buffer = []
        for i in range(n):
            buffer.append(i)
            yield buffer

    def build(p):
        return p | beam.Create([3]) | beam.FlatMap(reuse) | beam.Map(len)

    gives(pipeline, build, [1, 2, 3])


class _FailsInTimer(beam.DoFn):
    TIMER = userstate.TimerSpec("timer", TimeDomain.WATERMARK)

    def process(self, element, timer=beam.DoFn.TimerParam(TIMER)):
        timer.set(Timestamp(1))

    @userstate.on_timer(TIMER)
    def fire(self):
        msg = "fails in a timer"
        raise ValueError(msg)


def _fails(_):
    msg = "says what happened"
    raise KeyError(msg)


class _FailsIn(beam.DoFn):
    def __init__(self, moment):
        self._moment = moment

    def _fail(self, moment):
        if moment == self._moment:
            msg = f"fails in {moment}"
            raise ValueError(msg)

    def setup(self):
        self._fail("setup")

    def start_bundle(self):
        self._fail("start_bundle")

    def process(self, element):
        self._fail("process")
        yield element

    def finish_bundle(self):
        self._fail("finish_bundle")


class _FailingSum(beam.CombineFn):
    def __init__(self, moment):
        self._moment = moment

    def _fail(self, moment):
        if moment == self._moment:
            msg = f"fails in {moment}"
            raise ValueError(msg)

    def create_accumulator(self):
        return 0

    def add_input(self, accumulator, value):
        self._fail("add_input")
        return accumulator + value

    def merge_accumulators(self, accumulators):
        self._fail("merge_accumulators")
        return sum(accumulators)

    def extract_output(self, accumulator):
        self._fail("extract_output")
        return accumulator


FAILURES = {
    "a function": (lambda e: e | "Broken" >> beam.Map(_fails), "says what happened"),
    "a timer": (lambda e: e | "Broken" >> beam.ParDo(_FailsInTimer()), "fails in a timer"),
    **{
        moment: (
            lambda e, moment=moment: e | "Broken" >> beam.ParDo(_FailsIn(moment)),
            f"fails in {moment}",
        )
        for moment in ("setup", "start_bundle", "process", "finish_bundle")
    },
    **{
        moment: (
            lambda e, moment=moment: e | "Broken" >> beam.CombinePerKey(_FailingSum(moment)),
            f"fails in {moment}",
        )
        for moment in ("add_input", "merge_accumulators", "extract_output")
    },
    "a window function": (
        lambda e: e | "Broken" >> beam.Map(lambda e: window.TimestampedValue(e, "never")),
        "never",
    ),
}


@pytest.mark.spark
@pytest.mark.parametrize(("break_", "message"), FAILURES.values(), ids=FAILURES)
def test_a_failure_tells_the_exception_first_and_names_the_step(break_, message):
    with pytest.raises(RuntimeError) as caught, spark_pipeline() as p:
        _ = p | beam.Create([("k", 1), ("k", 2)]) | beam.Reshuffle() | beam.ptransform_fn(break_)()
    first = str(caught.value).splitlines()[0]
    assert message in first
    assert "Broken" in str(caught.value)
