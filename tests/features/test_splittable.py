from __future__ import annotations

import os
import uuid
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms import window
from apache_beam.utils.timestamp import Duration, Timestamp
from engines import compare, gives

from tests.support.restrictions import UpTo


class _Ranges(UpTo):
    """[0, element), in ``parts`` initial parts."""

    def __init__(self, parts=1):
        self._parts = parts

    def split(self, element, restriction):
        return restriction.split(max(1, restriction.size() // self._parts))


class _Count(beam.DoFn):
    """Emits the numbers of its range."""

    def process(self, element, tracker=beam.DoFn.RestrictionParam(_Ranges(parts=3))):
        at = tracker.current_restriction().start
        while tracker.try_claim(at):
            yield element, at
            at += 1


def test_initial_parts_cover_the_whole_once(pipeline):
    def build(p):
        return p | beam.Create([0, 1, 10]) | beam.ParDo(_Count())

    gives(pipeline, build, [(1, 0), *((10, n) for n in range(10))])


class _Few(beam.DoFn):
    """Puts the rest off after two elements."""

    def __init__(self, delay):
        self._delay = delay

    def process(self, element, tracker=beam.DoFn.RestrictionParam(_Ranges())):
        start = at = tracker.current_restriction().start
        while tracker.try_claim(at):
            yield element, at
            at += 1
            if at == start + 2:
                tracker.defer_remainder(self._delay)
                return


@pytest.mark.parametrize("delay", [None, Duration(micros=1000)])
def test_what_is_put_off_is_done_later(pipeline, delay):
    def build(p):
        return p | beam.Create([5, 3]) | beam.ParDo(_Few(delay))

    gives(pipeline, build, [(e, n) for e in (5, 3) for n in range(e)])


def test_what_was_put_off_is_grouped_and_combined_like_the_rest(pipeline):
    def build(p):
        numbers = p | beam.Create([5, 3]) | beam.ParDo(_Few(None))
        return numbers | beam.CombinePerKey(sum)

    gives(pipeline, build, [(5, 10), (3, 3)])


class _Bundles(beam.DoFn):
    """Emits its number of elements when a bundle ends."""

    def start_bundle(self):
        self._seen = 0

    def process(self, element):
        self._seen += 1

    def finish_bundle(self):
        yield window.GlobalWindows.windowed_value(self._seen)


def test_each_resumption_is_a_bundle_of_its_own(pipeline):
    def build(p):
        numbers = p | beam.Create([5]) | beam.ParDo(_Few(None))
        counts = numbers | beam.ParDo(_Bundles())
        return counts | beam.Filter(lambda n: n > 0)

    gives(pipeline, build, [2, 2, 1])


class _Times(beam.DoFn):
    def process(
        self,
        element,
        tracker=beam.DoFn.RestrictionParam(_Ranges()),
        estimator=beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider()),
    ):
        at = tracker.current_restriction().start
        while tracker.try_claim(at):
            estimator.set_watermark(Timestamp(at))
            yield window.TimestampedValue(at, at)
            if at % 2:
                tracker.defer_remainder()
                return
            at += 1


def test_watermarks_and_times(pipeline):
    def build(p):
        timed = p | beam.Create([6]) | beam.ParDo(_Times())
        keyed = timed | beam.WindowInto(window.FixedWindows(3)) | beam.WithKeys(0)
        return keyed | beam.GroupByKey() | beam.MapTuple(lambda _, v: sorted(v))

    gives(pipeline, build, [[0, 1, 2], [3, 4, 5]])


class _WithSide(beam.DoFn):
    def process(
        self,
        element,
        side,
        w=beam.DoFn.WindowParam,
        tracker=beam.DoFn.RestrictionParam(_Ranges(parts=2)),
    ):
        at = tracker.current_restriction().start
        while tracker.try_claim(at):
            yield at, sorted(side), float(w.start)
            at += 1


def test_side_inputs_and_windows(pipeline):
    def build(p):
        def timed(name, times):
            return (
                p
                | name >> beam.Create(times)
                | f"{name} times" >> beam.Map(lambda t: window.TimestampedValue(t, t))
                | f"{name} windows" >> beam.WindowInto(window.FixedWindows(5))
            )

        side = beam.pvalue.AsList(timed("side", [1, 6, 7]))
        return timed("main", [2, 6]) | beam.ParDo(_WithSide(), side)

    compare(pipeline, build)


class _FileFor(beam.DoFn):
    """Waits for the file that the finalizer of an earlier bundle makes."""

    def __init__(self, path):
        self._path = path

    def process(
        self,
        element,
        finalizer=beam.DoFn.BundleFinalizerParam,
        tracker=beam.DoFn.RestrictionParam(_Ranges()),
    ):
        at = tracker.current_restriction().start
        path = self._path
        if os.path.exists(path):
            while tracker.try_claim(at):
                at += 1
            yield "finalized"
            return
        assert tracker.try_claim(at)
        finalizer.register(lambda: Path(path).write_text("x"))
        tracker.defer_remainder()


def test_a_bundle_is_finalized_before_what_it_put_off_is_resumed(pipeline, tmp_path):
    def build(p):
        return p | beam.Create([10]) | beam.ParDo(_FileFor(str(tmp_path / uuid.uuid4().hex)))

    gives(pipeline, build, ["finalized"])


class _Lazy(beam.DoFn):
    def process(self, element, tracker=beam.DoFn.RestrictionParam(_Ranges())):
        assert tracker.try_claim(0)
        yield 0


def test_a_restriction_that_is_neither_done_nor_put_off_fails(pipeline):
    with pytest.raises(Exception, match=r"(?i)claim|OffsetRestrictionTracker"), pipeline as p:
        _ = p | beam.Create([10]) | beam.ParDo(_Lazy())


def test_a_splittable_dofn_after_another(pipeline):
    def build(p):
        first = p | beam.Create([3]) | "first" >> beam.ParDo(_Count())
        return first | beam.Map(lambda e: e[1]) | "second" >> beam.ParDo(_Count())

    gives(pipeline, build, [(1, 0), (2, 0), (2, 1)])


def test_tagged_outputs(pipeline):
    class Split(beam.DoFn):
        def process(self, element, tracker=beam.DoFn.RestrictionParam(_Ranges())):
            at = tracker.current_restriction().start
            while tracker.try_claim(at):
                yield beam.pvalue.TaggedOutput("odd" if at % 2 else "even", at)
                at += 1

    def build(p):
        parts = p | beam.Create([5]) | beam.ParDo(Split()).with_outputs("odd", "even")
        keyed = (
            parts.odd | "o" >> beam.Map(lambda n: ("odd", n)),
            parts.even | "e" >> beam.Map(lambda n: ("even", n)),
        )
        return keyed | beam.Flatten() | beam.CombinePerKey(sum)

    gives(pipeline, build, [("odd", 4), ("even", 6)])


class _Fails(beam.DoFn):
    def process(self, element, tracker=beam.DoFn.RestrictionParam(_Ranges())):
        tracker.try_claim(0)
        yield 1 // (element - 1)


@pytest.mark.spark
def test_an_error_names_the_step():
    from engines import spark_pipeline  # noqa: PLC0415 - starts Spark

    with (
        pytest.raises(RuntimeError, match=r"ZeroDivisionError.*\[while running 'Divide"),
        spark_pipeline() as p,
    ):
        _ = p | beam.Create([1]) | "Divide" >> beam.ParDo(_Fails())
