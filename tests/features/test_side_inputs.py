from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.pvalue import AsDict, AsIter, AsList, AsMultiMap, AsSingleton
from apache_beam.transforms import window
from engines import compare, gives


def _timed(p, name, times):
    return (
        p
        | name >> beam.Create(times)
        | f"{name} time" >> beam.Map(lambda t: window.TimestampedValue(t, t))
    )


def _with_window(element, w=beam.DoFn.WindowParam):
    end = getattr(w, "end", None)
    return element, None if end is None else float(end)


@pytest.mark.parametrize(
    ("view", "read"),
    [
        (AsIter, lambda _, side: sorted(side)),
        (AsList, lambda _, side: (len(side), sorted(side))),
        (AsDict, lambda _, side: sorted(side.items())),
        (AsMultiMap, lambda k, side: sorted(side[k])),
        (AsMultiMap, lambda _, side: sorted(side["nobody"])),
    ],
)
def test_every_view_of_pairs(pipeline, view, read):
    def build(p):
        side = p | "side" >> beam.Create([("a", 1), ("b", 2), ("c", 3)])
        return p | beam.Create(["a", "b"]) | beam.Map(read, view(side))

    compare(pipeline, build)


@pytest.mark.parametrize(
    ("view", "read"),
    [
        (AsIter, lambda _, side: list(side)),
        (AsList, lambda _, side: side),
        (AsDict, lambda _, side: side),
        (AsMultiMap, lambda k, side: list(side[k])),
        (lambda side: AsSingleton(side, default_value="none"), lambda _, side: side),
    ],
)
def test_views_of_nothing(pipeline, view, read):
    def build(p):
        side = p | "side" >> beam.Create([("a", 1)]) | beam.Filter(lambda _: False)
        return p | beam.Create(["a"]) | beam.Map(read, view(side))

    compare(pipeline, build)


def test_a_singleton(pipeline):
    def build(p):
        side = p | "side" >> beam.Create([7])
        return p | beam.Create([1, 2]) | beam.Map(lambda a, b: a + b, AsSingleton(side))

    gives(pipeline, build, [8, 9])


def test_a_singleton_of_several_elements_fails(pipeline):
    with pytest.raises(Exception, match="singleton"), pipeline as p:
        views = p | "side" >> beam.Create([1, 2])
        _ = p | beam.Create([0]) | beam.Map(lambda _, s: s, AsSingleton(views))


def test_one_collection_as_different_views(pipeline):
    def build(p):
        side = p | "side" >> beam.Create([("a", 1)])
        return (
            p
            | beam.Create(["a"])
            | beam.Map(
                lambda k, one, many, pairs, mapped: (k, one, list(many), pairs, list(mapped[k])),
                AsSingleton(side),
                AsIter(side),
                AsDict(side),
                mapped=AsMultiMap(side),
            )
        )

    compare(pipeline, build)


def test_a_collection_as_its_own_side_input(pipeline):
    def build(p):
        numbers = p | beam.Create([1, 2, 3])
        return numbers | beam.Map(lambda n, all_: (n, sum(all_)), AsList(numbers))

    gives(pipeline, build, [(1, 6), (2, 6), (3, 6)])


def test_a_side_input_made_with_a_side_input(pipeline):
    def build(p):
        first = p | "first" >> beam.Create([1, 2])
        second = first | "second" >> beam.Map(lambda n, s: n * sum(s), AsIter(first))
        third = second | "third" >> beam.CombineGlobally(sum)
        return (
            p
            | beam.Create([0])
            | beam.Map(
                lambda _, a, b, c: (sorted(a), sorted(b), c),
                AsList(first),
                AsList(second),
                AsSingleton(third),
            )
        )

    gives(pipeline, build, [([1, 2], [3, 6], 9)])


def test_a_combined_value_as_a_view(pipeline):
    def build(p):
        total = p | "side" >> beam.Create([1, 2, 3]) | beam.CombineGlobally(sum).as_singleton_view()
        return p | beam.Create([10]) | beam.Map(lambda a, b: a + b, total)

    gives(pipeline, build, [16])


def test_a_view_in_a_combine(pipeline):
    def build(p):
        bound = p | "side" >> beam.Create([3])
        return (
            p
            | beam.Create([("k", n) for n in range(6)])
            | beam.CombinePerKey(lambda values, most: min(sum(values), most), AsSingleton(bound))
        )

    gives(pipeline, build, [("k", 3)])


class _Remember(beam.DoFn):
    SEEN = beam.transforms.userstate.CombiningValueStateSpec("seen", sum)

    def process(self, element, side, seen=beam.DoFn.StateParam(SEEN)):
        key, value = element
        seen.add(value)
        yield key, seen.read() + side[1]


def test_a_view_in_a_stateful_dofn(pipeline):
    def build(p):
        # Beam looks for the coder of the key at any of the inputs: the side input has to have one.
        side = p | "side" >> beam.Create([("side", 100)])
        pairs = p | beam.Create([("a", 1), ("a", 1), ("b", 5)])
        return pairs | beam.ParDo(_Remember(), AsSingleton(side))

    gives(pipeline, build, [("a", 101), ("a", 102), ("b", 105)])


@pytest.mark.parametrize("side_size", [2, 5, 20])
@pytest.mark.parametrize("view", [AsList, AsDict, AsMultiMap])
def test_fixed_windows_look_at_the_window_of_their_last_moment(pipeline, side_size, view):
    def read(element, side):
        if not hasattr(side, "items"):
            return element, sorted(map(str, side)) if isinstance(side, list) else list(side["k"])
        return element, sorted(side.items())

    def build(p):
        main = _timed(p, "main", [1, 4, 9, 12]) | "main w" >> beam.WindowInto(
            window.FixedWindows(5)
        )
        side = (
            _timed(p, "side", [1, 4, 6, 9, 12, 14])
            | "side w" >> beam.WindowInto(window.FixedWindows(side_size))
            | "last" >> beam.Map(lambda t: ("k", t))
            | "unique" >> beam.CombinePerKey(max)
        )
        return main | beam.Map(read, view(side)) | "window" >> beam.Map(_with_window)

    compare(pipeline, build)


def test_sliding_main_windows_read_in_each_of_their_windows(pipeline):
    def build(p):
        main = _timed(p, "main", [3, 7]) | "main w" >> beam.WindowInto(window.SlidingWindows(10, 5))
        side = _timed(p, "side", [1, 4, 6, 11]) | "side w" >> beam.WindowInto(
            window.FixedWindows(5)
        )
        read = main | beam.Map(lambda n, s: (n, sorted(s)), AsIter(side))
        return read | "window" >> beam.Map(_with_window)

    compare(pipeline, build)


def test_sliding_side_windows(pipeline):
    def build(p):
        main = _timed(p, "main", [3, 7, 12]) | "main w" >> beam.WindowInto(window.FixedWindows(5))
        side = _timed(p, "side", [1, 4, 6, 11]) | "side w" >> beam.WindowInto(
            window.SlidingWindows(10, 5)
        )
        return main | beam.Map(lambda n, s: (n, sorted(s)), AsList(side))

    compare(pipeline, build)


def test_all_windows_read_a_global_side_input(pipeline):
    def build(p):
        main = _timed(p, "main", [3, 7]) | "main w" >> beam.WindowInto(window.FixedWindows(5))
        side = p | "side" >> beam.Create([1, 2])
        return main | beam.Map(lambda n, s: (n, sorted(s)), AsList(side))

    gives(pipeline, build, [(3, [1, 2]), (7, [1, 2])])


def test_a_window_without_side_elements_reads_the_default(pipeline):
    def build(p):
        main = _timed(p, "main", [3, 7]) | "main w" >> beam.WindowInto(window.FixedWindows(5))
        side = _timed(p, "side", [4]) | "side w" >> beam.WindowInto(window.FixedWindows(5))
        return main | beam.Map(lambda n, s: (n, s), AsSingleton(side, default_value=-1))

    gives(pipeline, build, [(3, 4), (7, -1)])


class _WeekWindows(window.NonMergingWindowFn):
    """Windows of a week, that look at the week before."""

    def assign(self, context):
        start = int(context.timestamp) // 7 * 7
        return [window.IntervalWindow(start, start + 7)]

    def get_window_coder(self):
        return beam.coders.coders.IntervalWindowCoder()

    def get_transformed_output_time(self, w, input_timestamp):
        return input_timestamp


def test_windows_of_the_users_own(pipeline):
    def build(p):
        main = _timed(p, "main", [3, 8]) | "main w" >> beam.WindowInto(_WeekWindows())
        side = _timed(p, "side", [1, 6, 9]) | "side w" >> beam.WindowInto(_WeekWindows())
        return main | beam.Map(lambda n, s: (n, sorted(s)), AsList(side))

    gives(pipeline, build, [(3, [1, 6]), (8, [9])])


def test_merging_windows_cannot_be_looked_into(pipeline):
    with pytest.raises(RuntimeError, match="Sessions is not allowed"), pipeline as p:
        side = p | "side" >> beam.Create([1]) | beam.WindowInto(window.Sessions(5))
        _ = p | beam.Create([1]) | beam.Map(lambda n, s: n, AsList(side))


def test_keys_of_a_multimap_may_be_of_any_type(pipeline):
    keys = [1, "1", (1, "x"), None, b"1", 2.5]

    def build(p):
        side = p | "side" >> beam.Create([(key, repr(key)) for key in keys])
        return p | beam.Create(keys) | beam.Map(lambda k, s: list(s[k]), AsMultiMap(side))

    compare(pipeline, build)


def test_a_side_input_of_megabytes_can_be_read_again_and_again(pipeline):
    def build(p):
        side = (
            p
            | "side" >> beam.Create(range(40))
            | "grow" >> beam.FlatMap(lambda n: ((n, b"x" * 1000) for _ in range(50)))
        )
        return (
            p
            | beam.Create([0, 1])
            | beam.Map(lambda _, s: (sum(len(v) for _, v in s), sum(k for k, _ in s)), AsIter(side))
        )

    gives(pipeline, build, [(2_000_000, 39_000)] * 2)


def test_a_grouped_side_input(pipeline):
    def build(p):
        side = p | "side" >> beam.Create([("a", 1), ("a", 2)]) | beam.GroupByKey()
        return p | beam.Create(["a"]) | beam.Map(lambda k, d: sorted(d[k]), AsDict(side))

    gives(pipeline, build, [[1, 2]])


def test_a_flattened_side_input(pipeline):
    def build(p):
        one = p | "one" >> beam.Create([("a", 1)])
        other = p | "other" >> beam.Create([("b", "x")])
        side = (one, other) | beam.Flatten()
        return p | beam.Create([0]) | beam.Map(lambda _, d: sorted(d.items()), AsDict(side))

    gives(pipeline, build, [[("a", 1), ("b", "x")]])


def test_a_side_input_of_a_batched_dofn(pipeline):
    import numpy as np  # noqa: PLC0415 - only in the workers

    class Shift(beam.DoFn):
        def process_batch(self, batch: np.ndarray, by: int):
            yield batch + by

        def infer_output_type(self, input_type):
            return input_type

        def get_input_batch_type(self, _):
            return np.ndarray

        def get_output_batch_type(self, _):
            return np.ndarray

    def build(p):
        side = p | "side" >> beam.Create([10])
        numbers = p | beam.Create(np.array([1, 2], dtype=np.int64)).with_output_types(np.int64)
        return numbers | beam.ParDo(Shift(), by=AsSingleton(side)) | beam.Map(int)

    gives(pipeline, build, [11, 12])
