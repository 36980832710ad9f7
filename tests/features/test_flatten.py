from __future__ import annotations

import apache_beam as beam
from engines import compare, gives


def _sorted_values(element):
    key, values = element
    return key, sorted(values, key=repr)


def test_inputs_with_different_coders(pipeline):
    def build(p):
        numbers = p | "numbers" >> beam.Create([1, 2])
        words = p | "words" >> beam.Create(["a", "b"])
        pairs = p | "pairs" >> beam.Create([("k", 1)])
        return (numbers, words, pairs) | beam.Flatten()

    gives(pipeline, build, [1, 2, "a", "b", ("k", 1)])


def test_inputs_with_different_coders_are_grouped_together(pipeline):
    def build(p):
        one = p | "one" >> beam.Create([("k", 1)])
        other = p | "other" >> beam.Create([("k", "x"), ("l", None)])
        return (one, other) | beam.Flatten() | beam.GroupByKey() | beam.Map(_sorted_values)

    compare(pipeline, build)


def test_one_input_taken_twice(pipeline):
    def build(p):
        words = p | beam.Create(["a", "b"])
        return (words, words) | beam.Flatten()

    gives(pipeline, build, ["a", "a", "b", "b"])


def test_no_input_at_all(pipeline):
    gives(pipeline, lambda p: () | beam.Flatten(pipeline=p), [])


def test_inputs_that_are_empty(pipeline):
    def build(p):
        nothing = p | "nothing" >> beam.Create([])
        filtered = p | beam.Create([1]) | beam.Filter(lambda _: False)
        return (nothing, filtered) | beam.Flatten() | beam.combiners.Count.Globally()

    gives(pipeline, build, [0])


def test_a_flatten_of_flattens_shares_inputs(pipeline):
    def build(p):
        a, b, c = (p | name >> beam.Create([name]) for name in "abc")
        ab = (a, b) | "ab" >> beam.Flatten()
        bc = (b, c) | "bc" >> beam.Flatten()
        return (ab, bc, a) | "all" >> beam.Flatten()

    gives(pipeline, build, ["a", "b", "b", "c", "a"])


def test_inputs_from_different_levels(pipeline):
    def build(p):
        start = p | beam.Create([("a", 1), ("a", 2), ("b", 3)])
        sums = start | beam.CombinePerKey(sum)
        counts = sums | beam.combiners.Count.PerKey()
        return (start, sums, counts) | beam.Flatten() | beam.Reshuffle()

    compare(pipeline, build)


def test_a_grouped_input_beside_a_plain_one(pipeline):
    def build(p):
        pairs = p | beam.Create([("a", 1), ("b", 2), ("a", 3)])
        grouped = pairs | beam.GroupByKey() | beam.Map(_sorted_values)
        listed = pairs | beam.MapTuple(lambda k, v: (k, [v]))
        return (grouped, listed) | beam.Flatten()

    compare(pipeline, build)


def test_flattened_outputs_of_one_transform(pipeline):
    def split(n):
        yield beam.pvalue.TaggedOutput("odd" if n % 2 else "even", n)

    def build(p):
        parts = p | beam.Create(range(6)) | beam.FlatMap(split).with_outputs("odd", "even")
        return (parts.odd, parts.even) | beam.Flatten() | beam.CombineGlobally(sum)

    gives(pipeline, build, [15])


def test_into_several_consumers_of_every_kind(pipeline):
    def build(p):
        a = p | "a" >> beam.Create([("x", 1), ("y", 2)])
        b = p | "b" >> beam.Create([("x", 3)])
        both = (a, b) | beam.Flatten()
        grouped = both | beam.GroupByKey() | beam.Map(_sorted_values)
        seen = (
            p
            | "once" >> beam.Create(["x"])
            | "look" >> beam.Map(lambda k, d: (k, sorted(d[k])), beam.pvalue.AsMultiMap(both))
        )
        spread = both | beam.Reshuffle()
        return (grouped, seen, spread) | "out" >> beam.Flatten()

    compare(pipeline, build)


def test_with_inputs_appended(pipeline):
    def build(p):
        more = p | "more" >> beam.Create([3])
        return p | beam.Create([1, 2]) | beam.FlattenWith(more)

    gives(pipeline, build, [1, 2, 3])


class _Tag(beam.DoFn):
    SEEN = beam.transforms.userstate.CombiningValueStateSpec("seen", sum)

    def process(self, element, seen=beam.DoFn.StateParam(SEEN)):
        seen.add(element[1])
        yield "stateful", element[0], seen.read()


def test_a_stateful_dofn_beside_another_reader_of_its_input(pipeline):
    def build(p):
        pairs = p | beam.Create([("a", 1), ("b", 2)])
        stateful = pairs | beam.ParDo(_Tag())
        plain = pairs | beam.Map(lambda pair: ("plain", *pair))
        return (stateful, plain) | beam.Flatten()

    expected = [("stateful", "a", 1), ("stateful", "b", 2), ("plain", "a", 1), ("plain", "b", 2)]
    gives(pipeline, build, expected)
