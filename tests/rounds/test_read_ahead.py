"""Keys that memory has no room for are read before their turns, which nobody sees."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.transforms import userstate

from tests.support.in_memory_rounds import DEFAULTS
from tests.support.recorded import emitted, emitted_in_batch
from tests.support.scripts import pairs_at_once, pairs_in_rounds
from timers_state.overlay.prefetch import Prefetch

# Each key comes back when some others have had their turns.
STEPS = [
    [(f"key-{(step * 100 + number) % 700}", step, step) for number in range(100)]
    for step in range(15)
]


class Tally(beam.DoFn):
    COUNT = userstate.CombiningValueStateSpec("count", beam.combiners.CountCombineFn())
    LAST = userstate.ReadModifyWriteStateSpec("last", VarIntCoder())

    def process(
        self,
        element,
        count=beam.DoFn.StateParam(COUNT),
        last=beam.DoFn.StateParam(LAST),
    ):
        key, number = element
        count.add(1)
        yield key, number, count.read(), last.read()
        last.write(number)


@pytest.mark.parametrize("compiled", [True, False])
def test_what_a_dofn_makes_is_the_same_if_keys_are_read_ahead(monkeypatch, compiled):
    read = Counter()
    fetch = Prefetch._fetch_records

    def counted(overlay, records, placed, rows):
        read["keys"] += len(placed)
        return fetch(overlay, records, placed, rows)

    monkeypatch.setattr(Prefetch, "_fetch_records", counted)
    options = replace(DEFAULTS, state_bytes=400_000, compiled=compiled)
    found = emitted(
        lambda p: pairs_in_rounds(*STEPS)(p) | beam.ParDo(Tally()), slots=1, options=options
    )
    expected = emitted_in_batch(lambda p: pairs_at_once(*STEPS)(p) | beam.ParDo(Tally()))
    assert Counter(found) == Counter(expected)
    assert read["keys"] > 100
