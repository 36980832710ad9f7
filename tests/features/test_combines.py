from __future__ import annotations

import operator

import apache_beam as beam
import pytest
from apache_beam.transforms import combiners, window
from engines import compare, gives

PAIRS = [("a", 1), ("a", 5), ("b", 2), ("c", 7), ("a", 3), ("b", 2)]


def _pairs(p):
    return p | beam.Create(PAIRS)


GLOBALLY = {
    "count": combiners.Count.Globally,
    "mean": combiners.Mean.Globally,
    "top": lambda: combiners.Top.Largest(2),
    "top of a key": lambda: combiners.Top.Of(2, key=operator.neg),
    "smallest": lambda: combiners.Top.Smallest(2),
    "list": combiners.ToList,
    "set": combiners.ToSet,
    "sum": lambda: beam.CombineGlobally(sum),
    "tuple": lambda: beam.CombineGlobally(
        combiners.SingleInputTupleCombineFn(sum, max, combiners.CountCombineFn())
    ),
    "fanned out": lambda: beam.CombineGlobally(sum).with_fanout(2),
    "quantiles": lambda: beam.ApproximateQuantiles.Globally(3),
    "distinct": lambda: beam.ApproximateUnique.Globally(size=16),
    "any of two": lambda: combiners.Sample.FixedSizeGlobally(100),
}


def _comparable(value):
    return sorted(value) if isinstance(value, (list, set, frozenset)) else value


def test_every_combiner_of_all_elements(pipeline):
    def build(p):
        numbers = _pairs(p) | beam.Values()
        results = []
        for name, make in GLOBALLY.items():
            result = numbers | name >> make()
            named = beam.Map(lambda value, name: (name, _comparable(value)), name)
            results.append(result | f"{name} named" >> named)
        return results | beam.Flatten()

    compare(pipeline, build)


PER_KEY = {
    "count": combiners.Count.PerKey,
    "mean": combiners.Mean.PerKey,
    "top": lambda: combiners.Top.LargestPerKey(1),
    "sum": lambda: beam.CombinePerKey(sum),
    "mean by class": lambda: beam.CombinePerKey(combiners.MeanCombineFn()),
    "sample": lambda: combiners.Sample.FixedSizePerKey(100),
    "hot keys": lambda: beam.CombinePerKey(sum).with_hot_key_fanout(3),
    "some hot keys": lambda: beam.CombinePerKey(sum).with_hot_key_fanout(
        lambda key: 5 if key == "a" else 0
    ),
    "tuple": lambda: beam.CombinePerKey(
        combiners.SingleInputTupleCombineFn(min, max, combiners.MeanCombineFn())
    ),
}


def test_every_combiner_per_key(pipeline):
    def build(p):
        pairs = _pairs(p)
        results = []
        for name, make in PER_KEY.items():
            result = pairs | name >> make()
            results.append(
                result
                | f"{name} named" >> beam.Map(lambda e, n: (n, e[0], _comparable(e[1])), name)
            )
        return results | beam.Flatten()

    compare(pipeline, build)


def test_latest_goes_by_time(pipeline):
    def build(p):
        timed = (
            p
            | beam.Create([("a", 3), ("a", 9), ("b", 5), ("a", 1)])
            | beam.Map(lambda e: window.TimestampedValue(e, e[1]))
        )
        per_key = timed | combiners.Latest.PerKey()
        overall = timed | beam.Values() | combiners.Latest.Globally()
        return (per_key, overall) | beam.Flatten()

    gives(pipeline, build, [("a", 9), ("b", 5), 9])


def test_nothing_combines_to_the_default_of_each_combiner(pipeline):
    def build(p):
        nothing = p | beam.Create([1]) | beam.Filter(lambda _: False)
        return [
            nothing | "sum" >> beam.CombineGlobally(sum),
            nothing | "count" >> combiners.Count.Globally(),
            nothing | "list" >> combiners.ToList(),
            nothing | "without" >> beam.CombineGlobally(sum).without_defaults(),
        ] | beam.Flatten()

    gives(pipeline, build, [0, 0, []])


def test_windows_without_elements_have_no_result(pipeline):
    def build(p):
        timed = p | beam.Create([1, 2, 12]) | beam.Map(lambda t: window.TimestampedValue(t, t))
        windowed = timed | beam.WindowInto(window.FixedWindows(5))
        return windowed | beam.CombineGlobally(sum).without_defaults()

    gives(pipeline, build, [3, 12])


class _Average(beam.CombineFn):
    """Checks the order of its calls."""

    def setup(self):
        self._ready = True

    def create_accumulator(self):
        assert self._ready
        return [0, 0]

    def add_input(self, accumulator, value):
        accumulator[0] += value
        accumulator[1] += 1
        return accumulator

    def merge_accumulators(self, accumulators):
        total = self.create_accumulator()
        for accumulator in accumulators:
            total[0] += accumulator[0]
            total[1] += accumulator[1]
        return total

    def compact(self, accumulator):
        return list(accumulator)

    def extract_output(self, accumulator):
        assert self._ready
        return accumulator[0] / accumulator[1] if accumulator[1] else None

    def teardown(self):
        self._ready = False


@pytest.mark.parametrize("fanout", [None, 4])
def test_an_accumulator_that_is_changed_in_place(pipeline, fanout):
    def build(p):
        combine = beam.CombinePerKey(_Average())
        if fanout:
            combine = combine.with_hot_key_fanout(fanout)
        return _pairs(p) | combine

    gives(pipeline, build, [("a", 3.0), ("b", 2.0), ("c", 7.0)])


def test_a_combine_of_grouped_values(pipeline):
    def build(p):
        return _pairs(p) | beam.GroupByKey() | beam.CombineValues(sum)

    gives(pipeline, build, [("a", 9), ("b", 4), ("c", 7)])


def test_combines_that_are_packed_into_one(pipeline):
    def build(p):
        pairs = _pairs(p)
        together = {
            "sum": pairs | "s" >> beam.CombinePerKey(sum),
            "most": pairs | "m" >> beam.CombinePerKey(max),
            "count": pairs | "c" >> combiners.Count.PerKey(),
        }
        return (
            together
            | beam.CoGroupByKey()
            | beam.MapTuple(lambda k, v: (k, v["sum"], v["most"], v["count"]))
        )

    gives(
        pipeline,
        build,
        [("a", [9], [5], [3]), ("b", [4], [2], [2]), ("c", [7], [7], [1])],
    )


def test_group_by_with_aggregations(pipeline):
    def build(p):
        rows = _pairs(p) | beam.Map(lambda e: beam.Row(key=e[0], value=e[1]))
        grouped = rows | beam.GroupBy("key").aggregate_field("value", sum, "total").aggregate_field(
            "value", combiners.MeanCombineFn(), "mean"
        )
        return grouped | beam.Map(tuple)

    gives(pipeline, build, [("a", 9, 3.0), ("b", 4, 2.0), ("c", 7, 7.0)])
