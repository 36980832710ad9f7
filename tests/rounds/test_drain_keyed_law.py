"""Law: stateful DoFns that are drained make what they make of the elements that were admitted.

So it is for all that ends by itself: within ten generations of timers.
"""

from __future__ import annotations

from collections import Counter

import apache_beam as beam
from hypothesis import given
from hypothesis import strategies as st
from test_keyed_law import WINDOWS, Everything, scripts, told

from tests.support.drained import emitted_when_drained
from tests.support.law import law
from tests.support.recorded import emitted_in_batch
from tests.support.scripts import pairs_at_once, pairs_in_rounds
from tests.support.undoing import ATTEMPTS, SEEDS, undoing


@law(6)
@given(
    scripts(),
    st.sampled_from(sorted(WINDOWS)),
    st.integers(1, 3),
    st.integers(0, 12),
    SEEDS,
    st.sampled_from([0.0, 0.1]),
    st.sampled_from([2, 10_000]),
)
def test_drained_stateful_dofns_make_what_they_make_of_what_was_admitted(
    steps, windowing, slots, after, seed, failing, elements
) -> None:
    def build(source, *steps):
        return lambda p: (
            source(*steps, windows=WINDOWS[windowing]())(p)
            | beam.ParDo(Everything())
            | beam.Map(told)
        )

    given, refused = [0], Counter()

    def begin(rounds) -> None:
        tell = rounds.loop.tell

        def look(schedule, reports) -> None:
            if schedule.number <= after:
                given[0] = rounds.loop.play.position
            tell(schedule, reports)

        rounds.loop.tell = look

    before, rest = emitted_when_drained(
        build(pairs_in_rounds, *steps),
        after,
        begin=begin,
        watch=lambda rounds: refused.update(rounds.schedule.refused),
        slots=slots,
        fail=undoing(seed, failing),
        attempts=ATTEMPTS,
        elements=elements,
        seconds=100,
    )
    admitted = steps[: given[0]]
    assert sorted(before + rest) == sorted(emitted_in_batch(build(pairs_at_once, *admitted)))
    assert not refused
