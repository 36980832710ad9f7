"""One law: whatever the pipeline, slots, block size and memory, the elements are those of a model.

Pipelines are drawn as lists of operations; the model applies the same operations to a list.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from pathlib import Path

import apache_beam as beam
from apache_beam.transforms import window
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.stages.shards.task_options import TaskOptions
from tests.support.in_memory import run_in_memory
from tests.support.law import law


class Twice(beam.DoFn):
    def process(self, element):
        yield element
        yield element + 1


class Returns(beam.DoFn):
    def process(self, element):
        return None if element % 5 == 0 else [element]


class Buffers(beam.DoFn):
    """Yields one list again and again, changed in between: outputs must be taken at once."""

    def process(self, element):
        buffer = []
        for i in range(3):
            buffer.append(element + i)
            yield buffer


class SumAtEnd(beam.DoFn):
    """Counts what it sees and tells when the bundle ends."""

    def start_bundle(self):
        self._sum = 0

    def process(self, element):
        self._sum += element

    def finish_bundle(self):
        yield window.GlobalWindows.windowed_value(self._sum)


def group_sums(values):
    groups = defaultdict(int)
    for v in values:
        groups[v % 7] += v
    return groups


def fixed_window_sums(values):
    groups = defaultdict(int)
    for v in values:
        groups[v % 3, v // 10] += v
    return groups


def sliding_counts(values):
    groups = defaultdict(int)
    for v in values:
        for start in (v // 5 * 5, v // 5 * 5 - 5):
            groups[start] += 1
    return groups


def windowed(transform):
    return lambda p: p | "At" >> beam.Map(lambda v: window.TimestampedValue(v, v)) | transform


def cogroup(p):
    return (
        {
            "a": p | "KeyA" >> beam.Map(lambda v: (v % 4, v)),
            "b": p | "KeyB" >> beam.Map(lambda v: (v % 4, 1)),
        }
        | beam.CoGroupByKey()
        | "Join" >> beam.MapTuple(lambda k, g: k + sum(g["a"]) + sum(g["b"]))
    )


# Name -> (on a PCollection, on a list)
OPERATIONS = {
    "map": (lambda p: p | beam.Map(lambda v: v * 3 + 1), lambda vs: [v * 3 + 1 for v in vs]),
    "filter": (lambda p: p | beam.Filter(lambda v: v % 2), lambda vs: [v for v in vs if v % 2]),
    "twice": (lambda p: p | beam.ParDo(Twice()), lambda vs: [w for v in vs for w in (v, v + 1)]),
    "returns": (lambda p: p | beam.ParDo(Returns()), lambda vs: [v for v in vs if v % 5]),
    "buffers": (
        lambda p: p | beam.ParDo(Buffers()) | beam.Map(sum),
        lambda vs: [s for v in vs for s in (v, 2 * v + 1, 3 * v + 3)],
    ),
    "buffers across a shuffle": (
        lambda p: p | beam.ParDo(Buffers()) | beam.Reshuffle() | beam.Map(sum),
        lambda vs: [s for v in vs for s in (v, 2 * v + 1, 3 * v + 3)],
    ),
    "reshuffle": (lambda p: p | beam.Reshuffle(), lambda vs: vs),
    "sum per key": (
        lambda p: (
            p
            | beam.Map(lambda v: (v % 7, v))
            | beam.CombinePerKey(sum)
            | "Flat" >> beam.MapTuple(lambda k, s: k + s)
        ),
        lambda vs: [k + s for k, s in group_sums(vs).items()],
    ),
    "group": (
        lambda p: (
            p
            | beam.Map(lambda v: (str(v % 7), v))
            | beam.GroupByKey()
            | "Flat" >> beam.MapTuple(lambda k, g: int(k) + sum(g))
        ),
        lambda vs: [k + s for k, s in group_sums(vs).items()],
    ),
    "group by tuples": (
        lambda p: (
            p
            | beam.Map(lambda v: ((v % 7, "x"), [v])).with_output_types(
                tuple[tuple[int, str], list[int]]
            )
            | beam.GroupByKey()
            | "Flat" >> beam.MapTuple(lambda k, g: k[0] + sum(sum(x) for x in g))
        ),
        lambda vs: [k + s for k, s in group_sums(vs).items()],
    ),
    "fixed windows": (
        lambda p: (
            windowed(beam.WindowInto(window.FixedWindows(10)))(p)
            | "Key" >> beam.Map(lambda v: (v % 3, v))
            | beam.CombinePerKey(sum)
            | "Flat" >> beam.MapTuple(lambda k, s: k + s)
            | "Back" >> beam.WindowInto(window.GlobalWindows())
        ),
        lambda vs: [k + s for (k, _), s in fixed_window_sums(vs).items()],
    ),
    "sliding windows": (
        lambda p: (
            windowed(beam.WindowInto(window.SlidingWindows(10, 5)))(p)
            | "Key" >> beam.Map(lambda v: ("k", v))
            | beam.GroupByKey()
            | "Flat" >> beam.MapTuple(lambda k, g: len(list(g)))
            | "Back" >> beam.WindowInto(window.GlobalWindows())
        ),
        lambda vs: list(sliding_counts(vs).values()),
    ),
    "tagged": (
        lambda p: (
            p
            | beam.ParDo(
                lambda v: [beam.pvalue.TaggedOutput("odd", v) if v % 2 else v]
            ).with_outputs("odd", main="even")
            | beam.Flatten()
        ),
        lambda vs: vs,
    ),
    "both ways": (
        lambda p: (p, p | "Again" >> beam.Map(lambda v: v + 100), p) | beam.Flatten(),
        lambda vs: vs + [v + 100 for v in vs] + vs,
    ),
    "side input": (
        lambda p: p | beam.Map(lambda v, other: v + len(other), other=beam.pvalue.AsList(p)),
        lambda vs: [v + len(vs) for v in vs],
    ),
    "side multimap": (
        lambda p: (
            p
            | "Look"
            >> beam.Map(
                lambda v, other: v + len(list(other[v % 3])),
                other=beam.pvalue.AsMultiMap(p | "K" >> beam.Map(lambda v: (v % 3, v))),
            )
        ),
        lambda vs: [v + sum(1 for w in vs if w % 3 == v % 3) for v in vs],
    ),
    "cogroup": (
        cogroup,
        lambda vs: [
            k + sum(v for v in vs if v % 4 == k) + sum(1 for v in vs if v % 4 == k)
            for k in {v % 4 for v in vs}
        ],
    ),
    "sum": (
        lambda p: p | beam.CombineGlobally(sum),
        lambda vs: [sum(vs)],
    ),
    "sum at end of bundles": (
        lambda p: p | beam.ParDo(SumAtEnd()) | "Total" >> beam.CombineGlobally(sum),
        lambda vs: [sum(vs)],
    ),
}


def write(path: str):
    def append(value) -> None:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(value) + "\n")

    return append


@law(20)
@given(
    st.lists(st.integers(0, 60), max_size=25),
    st.lists(st.sampled_from(sorted(OPERATIONS)), min_size=1, max_size=5),
    st.integers(1, 4),
    st.sampled_from([1, 60, 1 << 20]),
    st.sampled_from([1, 500, 1 << 28]),
    st.booleans(),
)
def test_a_pipeline_makes_what_its_model_makes(
    values, operations, slots, block_bytes, memory_bytes, compiled
) -> None:
    expected = list(values)
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "out"
        pipeline = beam.Pipeline()
        collection = pipeline | beam.Create(values, reshuffle=bool(values))
        for number, name in enumerate(operations):
            on_collection, on_list = OPERATIONS[name]
            collection = collection | f"{number} {name}" >> _As(on_collection)
            expected = on_list(expected)
        _ = collection | "Write" >> beam.Map(write(str(out)))
        run_in_memory(pipeline, slots, TaskOptions(block_bytes, memory_bytes, compiled))
        written = out.read_text().splitlines() if out.exists() else []
    assert sorted(json.loads(line) for line in written) == sorted(expected)


class _As(beam.PTransform):
    def __init__(self, function) -> None:
        super().__init__()
        self._function = function

    def expand(self, collection):
        return self._function(collection)
