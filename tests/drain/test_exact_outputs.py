"""What comes out of a drained job is exactly what its pipeline makes of what it had read.

Every shape of pipeline at every moment; and nothing is left: not in state, not in checkpoints.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import apache_beam as beam
import pytest
from apache_beam.transforms.window import FixedWindows, GlobalWindows

from tests.support.drained import emitted_when_drained
from tests.support.endless import numbers, silence
from tests.support.random_pipelines import Named, TotalAtEndOfWindow
from tests.support.restrictions import LeapingClock

WIDTH = 4


def in_windows(pairs):
    return pairs | "windows" >> beam.WindowInto(FixedWindows(WIDTH))


def everywhere(pairs):
    """Out of windows, so that everything can be flattened."""
    return pairs | "everywhere" >> beam.WindowInto(GlobalWindows())


def by_rest(pairs):
    made = pairs | "by rest" >> beam.MapTuple(lambda _, n: (n % 3, n))
    return made | "typed" >> beam.Map(lambda pair: pair).with_output_types(tuple[int, int])


def sums_of(pairs, key):
    sums = defaultdict(int)
    for _, n in pairs:
        sums[key(n), n // WIDTH] += n
    return [(key_, total) for (key_, _), total in sums.items()]


def two_shuffles(pairs):
    first = in_windows(by_rest(pairs)) | "one" >> beam.CombinePerKey(sum)
    return first | beam.MapTuple(lambda k, n: ("all", n)) | "two" >> beam.CombinePerKey(sum)


def several_shuffles(pairs):
    read = in_windows(pairs)
    odd = read | beam.MapTuple(lambda _, n: (n % 2, n)) | "odd" >> beam.CombinePerKey(sum)
    rest = by_rest(read) | "rest" >> beam.CombinePerKey(sum)
    return (odd, rest) | beam.Flatten()


def diamond(pairs):
    one = pairs | "left" >> beam.MapTuple(lambda _, n: ("left", n))
    other = pairs | "right" >> beam.MapTuple(lambda _, n: ("right", n))
    return in_windows((one, other) | beam.Flatten()) | beam.CombinePerKey(sum)


def together(pairs):
    read = in_windows(by_rest(pairs))
    twice = read | "twice" >> beam.MapTuple(lambda k, n: (k, 2 * n))
    grouped = {"one": read, "two": twice} | beam.CoGroupByKey()
    return grouped | beam.MapTuple(lambda k, both: (k, sum(both["one"]) + sum(both["two"])))


def beside_a_list(pairs):
    side = pairs.pipeline | "beside" >> beam.Create([5, 6])
    return pairs | beam.Map(
        lambda pair, more: (pair[0], pair[1] + sum(more)), more=beam.pvalue.AsList(side)
    )


def with_silence(pairs):
    """One of the inputs gives nothing, and holds time where it began."""
    quiet = pairs.pipeline | "silence" >> Named(silence)
    return in_windows(by_rest((pairs, quiet) | beam.Flatten())) | beam.CombinePerKey(sum)


def beside_silence(pairs):
    """What it waits for never has anything, so everything waits for the drain."""
    side = beam.pvalue.AsList(pairs.pipeline | "silence" >> Named(silence))
    return pairs | beam.Map(lambda pair, more: (pair[0], pair[1] + len(more)), more=side)


SHAPES = {
    "no shuffle": (
        lambda p: p | beam.MapTuple(lambda s, n: (s, 2 * n)),
        lambda r: [(s, 2 * n) for s, n in r],
    ),
    "reshuffle": (lambda p: p | beam.Reshuffle(), list),
    "one shuffle": (
        lambda p: in_windows(by_rest(p)) | beam.CombinePerKey(sum),
        lambda read: sums_of(read, lambda n: n % 3),
    ),
    "two shuffles": (two_shuffles, lambda read: sums_of(read, lambda n: "all")),
    "several shuffles": (
        several_shuffles,
        lambda read: sums_of(read, lambda n: n % 2) + sums_of(read, lambda n: n % 3),
    ),
    "diamond": (
        diamond,
        lambda read: sums_of(read, lambda n: "left") + sums_of(read, lambda n: "right"),
    ),
    "two inputs": (
        together,
        lambda read: [(k, 3 * n) for k, n in sums_of(read, lambda n: n % 3)],
    ),
    "side input": (beside_a_list, lambda read: [(s, n + 11) for s, n in read]),
    "silent input": (with_silence, lambda read: sums_of(read, lambda n: n % 3)),
    "silent side input": (beside_silence, list),
    "state and timers": (
        lambda p: in_windows(by_rest(p)) | beam.ParDo(TotalAtEndOfWindow()),
        lambda read: [(k, total) for k, total in counted_sums(read)],
    ),
}


def counted_sums(read):
    """What ``TotalAtEndOfWindow`` tells: the sum, and how many there were."""
    sums, counts = defaultdict(int), Counter()
    for _, n in read:
        sums[n % 3, n // WIDTH] += n
        counts[n % 3, n // WIDTH] += 1
    return [(key[0], total + counts[key]) for key, total in sums.items()]


@pytest.mark.parametrize(("sources", "slots"), [("a", 1), ("abc", 3)])
@pytest.mark.parametrize("after", [0, 2, 5])
@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_what_comes_out_is_what_the_pipeline_makes_of_what_was_read(shape, after, sources, slots):
    make, model = SHAPES[shape]

    def build(pipeline):
        read = pipeline | "numbers" >> Named(numbers(*sources))
        made = everywhere(read | "shape" >> Named(make))
        told = read | "read" >> beam.Map(lambda pair: ("read", pair))
        return (
            told,
            made | "made" >> beam.Map(lambda pair: ("made", pair)),
        ) | "all" >> beam.Flatten()

    # As few as these in a round, so that much is on its way whenever it is cut.
    before, rest = emitted_when_drained(build, after, clock=LeapingClock(), slots=slots, elements=4)
    read = [pair for what, pair in before + rest if what == "read"]
    made = [pair for what, pair in before + rest if what == "made"]
    assert Counter(made) == Counter(model(read))
    for source in sources:
        own = sorted(n for s, n in read if s == source)
        assert own == list(range(len(own))), "nothing is missing, and nothing is there twice"
    if after == 0:
        assert read == []
    if after == 5:
        assert len(read) >= 3 * len(sources)


@pytest.mark.parametrize("after", [0, 1, 4])
def test_a_job_that_never_saw_anything_is_drained_in_a_few_rounds(after):
    rounds = []
    before, rest = emitted_when_drained(
        lambda p: (
            in_windows(p | "silence" >> Named(silence))
            | "one" >> beam.GroupByKey()
            | "two" >> beam.GroupByKey()
        ),
        after,
        clock=LeapingClock(),
        watch=lambda run: rounds.append(len(run.rounds)),
    )
    assert before + rest == []
    assert rounds[0] - after <= 4


def test_a_source_that_has_ended_before_the_drain_keeps_nobody_waiting():
    def build(pipeline):
        ended = pipeline | "ended" >> beam.Create([("x", 1), ("x", 2)])
        return everywhere((ended, pipeline | "numbers" >> Named(numbers("a"))) | beam.Flatten())

    before, rest = emitted_when_drained(build, 4, clock=LeapingClock())
    out = Counter(before + rest)
    assert out["x", 1] == out["x", 2] == 1
    assert max(out.values()) == 1
