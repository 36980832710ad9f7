"""Grouping in bounded memory: whatever the budget, each group comes out once and whole."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkdrain.shuffle import merging
from sparkdrain.shuffle.chunk_file import ChunkFile
from sparkdrain.shuffle.grouped_blocks import cuts, encode_groups
from sparkdrain.shuffle.merging import GroupMerger
from sparkdrain.shuffle.sort_merging import SortMerger

SECTIONS = st.sampled_from([b"", b"w1", b"w2"])
KEYS = st.binary(max_size=2)
# A chunk begins with how many values are in it.
CHUNKS = st.binary(max_size=16).map(lambda values: b"\0\0\0\1" + values)
GROUPS = st.lists(st.tuples(KEYS, CHUNKS), max_size=12)
BLOCKS = st.lists(st.tuples(SECTIONS, GROUPS), max_size=20)
BUDGETS = st.sampled_from([0, 300, 1000, 5000, 1 << 20])


def payload(section, groups):
    return encode_groups(section, [key for key, _ in groups], [chunk for _, chunk in groups])


def loaded(chunks):
    return Counter(chunk if isinstance(chunk, bytes) else chunk.load() for chunk in chunks)


def expected(blocks):
    groups = defaultdict(Counter)
    for section, pairs in blocks:
        for key, chunk in pairs:
            groups[section, key][chunk] += 1
    return dict(groups)


MERGERS = {
    "by hash": (GroupMerger, GroupMerger.groups),
    "by sorting": (SortMerger, SortMerger.groups),
    "in order": (SortMerger, SortMerger.sorted_groups),
}


@pytest.mark.parametrize("way", sorted(MERGERS))
@settings(deadline=None)
@given(BLOCKS, BUDGETS)
def test_each_group_comes_out_once_and_whole(way, tmp_path_factory, blocks, budget):
    make, groups_of = MERGERS[way]
    directory = tmp_path_factory.mktemp("g")
    merger = make(budget, lambda: directory)
    for section, groups in blocks:
        merger.add(payload(section, groups))
    found = [((section, key), loaded(chunks)) for section, key, chunks in groups_of(merger)]
    came_out = [group for group, _ in found]
    assert (came_out if way == "in order" else sorted(came_out)) == sorted(expected(blocks))
    assert dict(found) == expected(blocks)
    merger.close()
    assert list(directory.iterdir()) == []


def test_a_key_larger_than_memory_and_than_a_piece_is_read_from_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(merging, "_PIECE_BYTES", 1000)
    merger = GroupMerger(4 << 20, lambda: tmp_path)
    chunks = [bytes([number]) * 100_000 for number in range(200)]
    for number, chunk in enumerate(chunks):
        merger.add(payload(b"", [(b"hot", chunk), (b"k%d" % number, b"cold")]))
    assert merger.spilled_bytes > 15 << 20
    groups = {key: chunks for _, key, chunks in merger.groups()}
    assert len(groups) == 201
    # The last run may be small.
    assert sum(isinstance(chunk, bytes) for chunk in groups[b"hot"]) < 10
    assert loaded(groups[b"hot"]) == Counter(chunks)
    merger.close()


def test_a_spilled_file_that_was_cut_off_is_an_error(tmp_path):
    merger = GroupMerger(0, lambda: tmp_path)
    merger.add(payload(b"", [(b"k", b"value")]))
    merger._parts._file.truncate(3)
    with pytest.raises(OSError, match="ended 1 bytes early"):
        list(merger.groups())
    merger.close()


def test_a_file_of_chunks_that_is_cut_says_so(tmp_path):
    file = ChunkFile(tmp_path)
    chunk = file.append(b"abc")
    assert (chunk.load(), chunk.load(2)) == (b"abc", b"ab")
    with pytest.raises(OSError, match="ended 2 bytes early"):
        file.read(1, 4)


@given(st.lists(st.binary(max_size=9)), st.integers(1, 20))
def test_cuts_are_one_behind_the_other_and_near_the_limit(chunks, limit):
    parts = [chunks[first:last] for first, last in cuts(chunks, limit)]
    assert [chunk for part in parts for chunk in part] == chunks
    assert all(part for part in parts)
    assert all(sum(map(len, part[:-1])) < limit for part in parts)
    assert all(sum(map(len, part)) >= limit for part in parts[:-1])
