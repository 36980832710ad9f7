from __future__ import annotations

import time

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.transforms import util, window
from apache_beam.transforms.deduplicate import Deduplicate, DeduplicatePerKey
from apache_beam.utils.timestamp import Duration
from engines import compare, gives


def test_wait_on_holds_elements_back_until_the_other_is_done(pipeline, tmp_path):
    path = str(tmp_path / "done")

    def write(_):
        time.sleep(0.2)
        with open(path, "w") as file:
            file.write("x")

    def read(n):
        with open(path) as file:
            return n, file.read()

    def build(p):
        done = p | "signal" >> beam.Create([0]) | beam.Map(write)
        return p | beam.Create([1, 2]) | util.WaitOn(done) | beam.Map(read)

    gives(pipeline, build, [(1, "x"), (2, "x")])


@pytest.mark.parametrize("duration", [None, 1000])
def test_group_into_batches(pipeline, duration):
    def build(p):
        pairs = p | beam.Create([(n % 2, n) for n in range(10)])
        batches = pairs | beam.GroupIntoBatches(2, duration)
        listed = batches | beam.MapTuple(lambda k, v: (k, sorted(v)))
        sizes = listed | "sizes" >> beam.MapTuple(lambda _, v: len(v)) | beam.combiners.ToList()
        everything = listed | beam.FlatMapTuple(lambda k, v: [(k, n) for n in v])
        return (sizes | "sort" >> beam.Map(sorted), everything) | beam.Flatten()

    gives(pipeline, build, [[1, 1, 2, 2, 2, 2], *((n % 2, n) for n in range(10))])


def test_group_into_batches_with_sharded_keys(pipeline):
    def build(p):
        pairs = p | beam.Create([("k", n) for n in range(6)])
        batches = pairs | beam.GroupIntoBatches.WithShardedKey(2)
        return batches | beam.FlatMap(lambda e: [(e[0].key, n) for n in e[1]])

    gives(pipeline, build, [("k", n) for n in range(6)])


def test_batch_elements(pipeline):
    def build(p):
        numbers = p | beam.Create(range(20))
        batches = numbers | beam.BatchElements(min_batch_size=4, max_batch_size=4)
        return batches | beam.FlatMap(lambda batch: batch if len(batch) <= 4 else ["too many"])

    gives(pipeline, build, range(20))


def test_deduplicate(pipeline):
    hour = Duration(seconds=3600)

    def build(p):
        words = p | beam.Create(["a", "b", "a", "a"])
        pairs = words | beam.Map(lambda w: (w, 1))
        return [
            words | "by time" >> Deduplicate(processing_time_duration=hour),
            words | "by event time" >> Deduplicate(event_time_duration=hour),
            pairs | "per key" >> DeduplicatePerKey(processing_time_duration=hour),
        ] | beam.Flatten()

    gives(pipeline, build, ["a", "b", "a", "b", ("a", 1), ("b", 1)])


def test_distinct_partition_and_the_small_ones(pipeline):
    def build(p):
        numbers = p | beam.Create([1, 2, 2, 3, 4])
        low, high = numbers | beam.Partition(lambda n, _: int(n > 2), 2)
        pairs = numbers | beam.WithKeys(lambda n: -n)
        return [
            numbers | beam.Distinct(),
            low | "low" >> beam.Map(lambda n: ("low", n)),
            high | "high" >> beam.Map(lambda n: ("high", n)),
            pairs | beam.Keys(),
            pairs | beam.Values() | "as text" >> beam.ToString.Element(),
            pairs | beam.KvSwap(),
        ] | beam.Flatten()

    compare(pipeline, build)


@pytest.mark.parametrize("exchange", [beam.Reshuffle(), beam.Reshuffle(num_buckets=2)])
def test_exchanges(pipeline, exchange):
    gives(pipeline, lambda p: p | beam.Create(range(50)) | exchange, range(50))


class _Double(beam.DoFn):
    def process_batch(self, batch: np.ndarray, *_args, **_kwargs):
        assert isinstance(batch, np.ndarray)
        yield batch * 2

    def infer_output_type(self, input_type):
        return input_type

    def get_input_batch_type(self, element_type):
        return beam.typehints.batch.NumpyArray[element_type]

    def get_output_batch_type(self, element_type):
        return self.get_input_batch_type(element_type)


class _Total(beam.DoFn):
    @beam.DoFn.yields_elements
    def process_batch(self, batch: np.ndarray):
        yield int(batch.sum())

    def get_input_batch_type(self, element_type):
        return beam.typehints.batch.NumpyArray[element_type]

    def infer_output_type(self, _):
        return int


class _Produce(beam.DoFn):
    @beam.DoFn.yields_batches
    def process(self, element: int):
        yield np.full(element, element, dtype=np.int64)

    def infer_output_type(self, _):
        return np.int64

    def get_output_batch_type(self, _):
        return np.ndarray


def test_batched_dofns_and_plain_ones_in_a_row(pipeline):
    def build(p):
        numbers = p | beam.Create(list(np.arange(1, 30, dtype=np.int64)))
        typed = numbers | "typed" >> beam.Map(lambda n: n).with_output_types(np.int64)
        twice = typed | "first" >> beam.ParDo(_Double()) | "second" >> beam.ParDo(_Double())
        plus = twice | "plus" >> beam.Map(lambda n: n + 1).with_output_types(np.int64)
        totals = plus | beam.ParDo(_Total())
        return totals | beam.CombineGlobally(sum)

    gives(pipeline, build, [4 * sum(range(1, 30)) + 29])


def test_elements_made_as_batches(pipeline):
    def build(p):
        return (
            p
            | beam.Create([1, 2, 3])
            | beam.ParDo(_Produce()).with_output_types(np.int64)
            | beam.Map(int)
        )

    gives(pipeline, build, [1, 2, 2, 3, 3, 3])


def test_failing_elements_go_to_the_dead_letters(pipeline):
    def build(p):
        good, bad = p | beam.Create([1, 0, 2]) | beam.Map(lambda n: 2 / n).with_exception_handling()
        return (good, bad | beam.Map(lambda e: (e[0], e[1][0].__name__))) | beam.Flatten()

    gives(pipeline, build, [2.0, 1.0, (0, "ZeroDivisionError")])


def test_failing_elements_of_a_dofn_with_a_time_limit(pipeline):
    def slow(n):
        time.sleep(5 * (n == 1))
        return n

    def build(p):
        good, bad = p | beam.Create([1, 2]) | beam.Map(slow).with_exception_handling(timeout=1)
        return (good, bad | "bad" >> beam.Map(lambda e: ("late", e[0]))) | beam.Flatten()

    gives(pipeline, build, [2, ("late", 1)])


def test_too_many_dead_letters_fail_the_pipeline(pipeline):
    with pytest.raises(Exception, match=r"0\.5"), pipeline as p:
        _ = (
            p
            | beam.Create([1, 0])
            | beam.Map(lambda n: 1 / n).with_exception_handling(threshold=0.2)
        )


def test_composites_that_do_nothing_and_unused_outputs(pipeline):
    class Nothing(beam.PTransform):
        def expand(self, pcoll):
            return pcoll

    def build(p):
        outputs = (
            p
            | beam.Create([1, 2])
            | beam.FlatMap(lambda n: [n, beam.pvalue.TaggedOutput("unused", n)]).with_outputs(
                "unused", main="main"
            )
        )
        _ = outputs.main | "ends here" >> beam.Map(lambda n: n)
        return outputs.main | Nothing()

    gives(pipeline, build, [1, 2])


def test_undeclared_tags_are_dropped(pipeline):
    def build(p):
        return (
            p
            | beam.Create([1, 2])
            | beam.FlatMap(lambda n: [n, beam.pvalue.TaggedOutput("nobody", n)])
        )

    gives(pipeline, build, [1, 2])


def test_regex_and_strings(pipeline):
    def build(p):
        lines = p | beam.Create(["a1 b2", "c3"])
        return [
            lines | "find" >> beam.Regex.find_all(r"\w\d", outputEmpty=False),
            lines | "split" >> beam.Regex.split(r"\s"),
        ] | beam.Flatten()

    compare(pipeline, build)


def test_elements_may_be_windowed_by_hand(pipeline):
    def build(p):
        stamped = (
            p
            | beam.Create([3, 8])
            | beam.Map(lambda t: window.WindowedValue(("k", t), t, [window.IntervalWindow(0, 10)]))
        )
        stamped = stamped | beam.WindowInto(window.FixedWindows(5))
        return stamped | beam.GroupByKey() | beam.MapTuple(lambda k, v: sorted(v))

    gives(pipeline, build, [[3], [8]])


def test_a_chain_longer_than_pythons_recursion_limit(pipeline):
    def build(p):
        value = p | beam.Create([0])
        for n in range(400):
            value = value | f"step {n}" >> beam.Map(lambda v: v + 1)
        return value

    gives(pipeline, build, [400])


@pytest.mark.parametrize(
    "build", [lambda p: p, lambda p: p | beam.Impulse()], ids=["empty", "impulse"]
)
def test_pipelines_that_do_nothing(pipeline, build):
    with pipeline as p:
        _ = build(p)
