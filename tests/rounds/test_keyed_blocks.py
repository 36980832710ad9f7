"""Blocks of a round come out key by key, or piece by piece, with the same in them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from unittest.mock import patch

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.transforms import userstate
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.shuffle.grouped_blocks import encode_groups
from sparkdrain.shuffle.keyed_blocks import KeyedBlocks
from tests.support.in_memory_rounds import DEFAULTS
from tests.support.recorded import emitted
from tests.support.scripts import Mark, pairs_in_rounds

MEMORY = 1 << 20
blocks_of_keys = st.lists(st.dictionaries(st.sampled_from([b"a", b"b", b"cc"]), st.binary()))


def filled(blocks, memory, directory):
    made = KeyedBlocks(memory, lambda: directory)
    for block in blocks:
        chunks = [b"\0\0\0\1" + chunk for chunk in block.values()]
        made.add(memoryview(encode_groups(b"", list(block), chunks)))
    return made


def by_key(pairs):
    found = defaultdict(list)
    for key, chunks in pairs:
        found[key] += [chunks] if type(chunks) is bytes else chunks
    return found


@given(blocks_of_keys)
def test_pieces_have_what_groups_have_in_the_same_order(blocks):
    blocks = [block for block in blocks if block]
    one = filled(blocks, MEMORY, None)
    pieces = list(one.pieces())
    assert len(pieces) == sum(map(len, blocks))
    assert one.are_any() == bool(blocks)
    groups = list(one.groups(dict.items))
    assert len(groups) == len({key for key, _ in groups})
    assert by_key(pieces) == by_key(groups)


def test_what_is_more_than_a_part_of_memory_is_put_together(tmp_path):
    block = {b"%d" % number: bytes(100) for number in range(100)}
    few, more = filled([block] * 2, 1 << 18, tmp_path), filled([block] * 5, 1 << 18, tmp_path)
    assert len(list(few.pieces())) == 200
    assert more.pieces() is None
    assert {key: len(chunks) for key, chunks in by_key(more.groups(dict.items)).items()} == (
        dict.fromkeys(block, 5)
    )
    more.clear()
    assert not more.are_any()
    assert list(more.pieces()) == []


def test_many_keys_in_a_block_come_in_their_order():
    block = {b"%d" % number: b"%d" % number for number in range(5_000)}
    pieces = list(filled([block], MEMORY, None).pieces())
    assert [(key, chunk[4:]) for key, chunk in pieces] == list(block.items())


class Counted(beam.DoFn):
    COUNT = userstate.ReadModifyWriteStateSpec("count", VarIntCoder())

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        count.write((count.read() or 0) + 1)
        yield element[0], count.read()


class CalledByBeam(beam.DoFn):
    LIST = userstate.OrderedListStateSpec("list", VarIntCoder())

    def process(self, element, _=beam.DoFn.WindowedValueParam, all_=beam.DoFn.StateParam(LIST)):
        all_.add((Timestamp(1), element[1]))
        yield element[0], sum(1 for _ in all_.read())


@pytest.mark.parametrize(("dofn", "is_merged"), [(Counted, False), (CalledByBeam, True)])
def test_blocks_are_merged_where_turns_are_dear(dofn, is_merged):
    steps = [[("a", 1, 1), ("b", 1, 1), ("a", 2, 1)], Mark(2), [("a", 3, 3)]]
    with patch.object(
        KeyedBlocks, "_merge", autospec=True, side_effect=KeyedBlocks._merge
    ) as merge:
        found = emitted(
            lambda p: pairs_in_rounds(*steps)(p) | beam.ParDo(dofn()),
            options=replace(DEFAULTS, compiled=True),
        )
    assert sorted(found) == [("a", 1), ("a", 2), ("a", 3), ("b", 1)]
    assert bool(merge.call_count) == is_merged
