"""What the streaming jobs are fed with, and how delays become percentiles."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.jobs.stream_latency import RATE, TAPS, due_at, quantile
from benchmarks.jobs.turns import BLOCK, Shard, shards


@given(st.integers(1, 5000), st.integers(1, 12), st.sampled_from([100, 1000]))
def test_every_key_has_one_element_in_each_turn_and_at_its_time(keys, turns, turn_ms):
    seen: Counter[tuple[int, int]] = Counter()
    for shard in shards(keys, turns, turn_ms):
        for number in range(shard.blocks):
            block = shard.block(number)
            assert 1 <= len(block.keys) <= BLOCK
            start = shard.time_ms(0) + block.turn * turn_ms
            assert start <= block.time_ms < start + turn_ms
            seen.update((block.turn, key) for key in block.keys)
    assert seen == Counter((turn, key) for turn in range(turns) for key in range(keys))


@given(st.integers(1, 3000), st.integers(1, 5))
def test_the_watermark_after_a_block_is_not_after_the_next_one(keys, turns):
    shard = Shard(0, keys, turns, 1000)
    times = [shard.block(number).time_ms for number in range(shard.blocks)]
    assert times == sorted(times)
    assert shard.time_ms(shard.blocks) >= times[-1]


def test_all_shards_are_at_the_same_time_when_they_are_as_far():
    ends = defaultdict(set)
    for shard in shards(10_000, 4, 1000):
        ends["start"].add(shard.time_ms(0))
        ends["end"].add(shard.time_ms(shard.blocks))
    assert {len(times) for times in ends.values()} == {1}


def test_taps_together_have_the_rate():
    assert due_at(0, RATE // TAPS) == 1_000_000


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 5)), min_size=1))
def test_a_quantile_is_that_of_the_values_one_by_one(weighted):
    values = sorted(value for value, weight in weighted for _ in range(weight))
    assert quantile(weighted, 0.5) == values[(len(values) - 1) // 2]
    assert quantile(weighted, 1) == values[-1]


def test_of_nothing_there_is_no_quantile():
    with pytest.raises(ValueError, match=r"\[\]"):
        quantile([], 0.5)
