from __future__ import annotations

import typing

import apache_beam as beam
import pytest
from apache_beam.coders import Coder, VarIntCoder, registry
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from engines import compare, gives


class Point(typing.NamedTuple):
    x: int
    y: int


class _Word:
    def __init__(self, text):
        self.text = text

    def __eq__(self, other):
        return isinstance(other, _Word) and self.text == other.text

    def __hash__(self):
        return hash(self.text)


class _WordCoder(Coder):
    """Words are equal if they differ in case only."""

    def encode(self, value):
        return value.text.lower().encode()

    def decode(self, encoded):
        return _Word(encoded.decode())

    def is_deterministic(self):
        return True

    def to_type_hint(self):
        return _Word


registry.register_coder(_Word, _WordCoder)

KEYS = {
    "text": ["", "a", "ä", "a\0b", "a" * 5000],
    "bytes": [b"", b"\0", b"a", b"\xff" * 300],
    "numbers": [0, 1, -1, 2**31, -(2**63), 2**63 - 1],
    "floats": [0.0, 1.5, -1.5, float("inf")],
    "flags": [True, False],
    "nothing": [None],
    "tuples": [(1, "a"), (1, "b"), (), (1, (2, 3))],
    "points": [Point(1, 2), Point(2, 1)],
    "of every type": [1, "1", b"1", 1.5, None, (1,), False],
}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_keys_of_one_type(pipeline, keys):
    def build(p):
        pairs = p | beam.Create([(key, n) for key in keys for n in range(3)])
        grouped = pairs | beam.GroupByKey() | beam.MapTuple(lambda k, v: (k, sorted(v)))
        summed = pairs | beam.CombinePerKey(sum)
        return (grouped, summed) | beam.Flatten()

    compare(pipeline, build)


def test_keys_are_equal_if_their_encodings_are(pipeline):
    def build(p):
        words = p | beam.Create(["Tea", "tea", "Milk"]) | beam.Map(_Word).with_output_types(_Word)
        pairs = words | beam.WithKeys(lambda w: w).with_output_types(tuple[_Word, _Word])
        counted = pairs | beam.combiners.Count.PerKey()
        return counted | beam.MapTuple(lambda k, n: (k.text.lower(), n))

    gives(pipeline, build, [("tea", 2), ("milk", 1)])


def test_a_key_without_a_deterministic_coder_is_refused(pipeline):
    class Odd:
        pass

    with pytest.raises(Exception, match="determinis"), pipeline as p:
        odd = p | beam.Create([0]) | beam.Map(lambda _: (Odd(), 1))
        _ = odd | beam.GroupByKey()


def test_values_that_the_user_changes_after_handing_them_over(pipeline):
    def reuse(_):
        buffer = []
        for n in range(3):
            buffer.append(n)
            yield "k", buffer

    def build(p):
        return (
            p
            | beam.Create([0])
            | beam.FlatMap(reuse)
            | beam.GroupByKey()
            | beam.MapTuple(lambda _, v: sorted(map(len, v)))
        )

    gives(pipeline, build, [[1, 2, 3]])


def test_values_can_be_read_again_and_counted(pipeline):
    def twice(element):
        key, values = element
        return key, sum(values), sum(values), sorted(values)

    def build(p):
        pairs = p | beam.Create([("a", n) for n in range(5)])
        return pairs | beam.GroupByKey() | beam.Map(twice)

    gives(pipeline, build, [("a", 10, 10, [0, 1, 2, 3, 4])])


def test_large_elements(pipeline):
    def build(p):
        large = p | beam.Create([1, 2, 3]) | beam.Map(lambda n: (n % 2, b"x" * (n * 1_000_000)))
        spread = large | beam.Reshuffle()
        grouped = spread | beam.GroupByKey()
        return grouped | beam.MapTuple(lambda k, v: (k, sorted(map(len, v))))

    gives(pipeline, build, [(1, [1_000_000, 3_000_000]), (0, [2_000_000])])


def test_more_keys_than_a_block_holds(pipeline):
    def build(p):
        pairs = (
            p
            | beam.Create(range(20))
            | beam.FlatMap(lambda n: ((f"key {k}", n) for k in range(500)))
        )
        sums = pairs | beam.GroupByKey() | beam.MapTuple(lambda _, v: sum(v))
        return sums | beam.combiners.Count.PerElement()

    gives(pipeline, build, [(190, 500)])


def test_co_group_by_key(pipeline):
    def build(p):
        names = p | "names" >> beam.Create([(1, "a"), (2, "b"), (2, "c")])
        ages = p | "ages" >> beam.Create([(1, 10), (3, 30)])
        none = p | "none" >> beam.Create([]) | "typed" >> beam.Map(lambda e: (e, e))
        joined = {"names": names, "ages": ages, "none": none} | "join" >> beam.CoGroupByKey()
        tupled = (names, ages) | "as a tuple" >> beam.CoGroupByKey()
        return (
            joined
            | "joined" >> beam.MapTuple(lambda k, v: (k, {n: sorted(x) for n, x in v.items()})),
            tupled | "tupled" >> beam.MapTuple(lambda k, v: (k, tuple(map(sorted, v)))),
        ) | beam.Flatten()

    gives(
        pipeline,
        build,
        [
            (1, {"names": ["a"], "ages": [10], "none": []}),
            (2, {"names": ["b", "c"], "ages": [], "none": []}),
            (3, {"names": [], "ages": [30], "none": []}),
            (1, (["a"], [10])),
            (2, (["b", "c"], [])),
            (3, ([], [30])),
        ],
    )


class Counted(beam.DoFn):
    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        count.write((count.read() or 0) + 1)


BY_KEY = {
    "group": beam.GroupByKey,
    "combine": lambda: beam.CombinePerKey(sum),
    "state": lambda: beam.ParDo(Counted()),
}


@pytest.mark.parametrize("by_key", BY_KEY)
@pytest.mark.parametrize("element", [1, ("a", "b", "c")], ids=["number", "three"])
def test_what_is_no_pair_is_told_of_with_the_step_that_made_it(request, pipeline, by_key, element):
    made = pipeline | "Begin" >> beam.Create([0])
    made = made | "Make" >> beam.Map(lambda _: element).with_output_types(typing.Any)
    _ = made | "ByKey" >> BY_KEY[by_key]() | "After" >> beam.Map(str)
    with pytest.raises(Exception, match=r"running 'Make'") as failed:
        pipeline.run().wait_until_finish()
    # Beam's own operations, where chains are not compiled, say it in other words.
    if request.node.callspec.params["pipeline"] == "compiled":
        assert "is not a pair of a key and a value" in str(failed.value)


def test_what_cannot_be_encoded_is_told_of_with_the_step_that_made_it(pipeline):
    made = pipeline | "Begin" >> beam.Create([0])
    made = made | "Make" >> beam.Map(lambda _: ("a", "b")).with_output_types(tuple[str, int])
    _ = made | beam.GroupByKey() | "After" >> beam.Map(str)
    with pytest.raises(Exception, match=r"integer.*running 'Make'"):
        pipeline.run().wait_until_finish()
