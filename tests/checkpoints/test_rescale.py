"""A job goes on with more slots or fewer, and every key is where the shuffle sends its elements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.checkpoints.manifest import ShardState
from sparkdrain.checkpoints.rescale import (
    groups_of_slot,
    heir,
    heir_of_part,
    old_stores,
    sources_of,
)
from sparkdrain.checkpoints.upload import Bringer, Destination
from sparkdrain.errors import CheckpointDamaged
from sparkdrain.shuffle.keys import Owners
from timers_state import KEY_GROUPS, Overlay, RoundStore, key_group

SLOTS = st.integers(1, 40)


@given(st.binary(), SLOTS)
def test_a_slot_has_the_groups_of_the_keys_that_it_gets(key, slots):
    (slot,) = Owners(range(slots)).of([key])
    assert key_group(key) in groups_of_slot(slot, slots)


@given(SLOTS)
def test_every_group_has_one_slot(slots):
    groups = [group for slot in range(slots) for group in groups_of_slot(slot, slots)]
    assert groups == list(range(KEY_GROUPS))


@given(SLOTS, SLOTS)
def test_whoever_has_something_is_asked_for_it(before, slots):
    for slot in range(slots):
        asked = sources_of(slot, before, slots)
        mine = set(groups_of_slot(slot, slots))
        assert mine <= {group for old in asked for group in groups_of_slot(old, before)}
        assert {old for old in range(before) if heir(old, before, slots) == slot} <= set(asked)
    assert {heir(old, before, slots) for old in range(before)} <= set(range(slots))


@given(SLOTS, SLOTS, st.integers(1, 30))
def test_parts_go_to_those_who_ask_and_evenly(before, slots, parts):
    loads = [0] * slots
    for old in range(before):
        heirs = [heir_of_part(old, before, slots, part, parts) for part in range(parts)]
        assert heirs == sorted(heirs)
        for slot in heirs:
            assert old in sources_of(slot, before, slots)
            loads[slot] += 1
    # Nobody gets more than the share of its key groups, but for the parts that are cut.
    share = before * parts / slots
    assert max(loads) <= share + before / slots + 2


def test_slots_without_key_groups_have_heirs_too():
    before = KEY_GROUPS + 7
    for old in range(before):
        assert old in sources_of(heir_of_part(old, before, 3, 0, 1), before, 3)


def save(storage, paths, directory, slots):
    """A level's state in storage, as so many slots would have it; the last one has none."""
    for slot in range(slots):
        with Overlay(RoundStore(directory / f"live-{slot}"), 1 << 20) as overlay:
            if slot < slots - 1:
                overlay.scope(1, b"").value(b"v").set(b"%d" % slot)
            overlay.prepare()
            overlay.commit()
            overlay.snapshot(directory / f"snapshot-{slot}")
        bringer = Bringer(Destination(storage, paths, 1, 0, slot))
        files, _ = bringer.bring(1, directory / f"snapshot-{slot}", lambda: None)
        yield ShardState(0, slot, files)


def test_stores_of_old_slots_are_there_as_long_as_they_are_needed(storage, paths, tmp_path):
    shards = list(save(storage, paths, tmp_path, 3))
    with old_stores(storage, paths, shards, tmp_path / "new") as (stores, _):
        found = {
            slot: [value for _, value in store.iterate(b"\1", b"\2")]
            for slot, store in stores.items()
        }
    assert found == {0: [b"0"], 1: [b"1"], 2: []}
    assert not list(tmp_path.glob("new*"))


def test_nothing_is_left_if_one_of_them_is_damaged(storage, paths, tmp_path):
    shards = list(save(storage, paths, tmp_path, 3))
    storage.delete([paths.file(file.path) for file in shards[1].files if file.path][:1])
    with pytest.raises(CheckpointDamaged), old_stores(storage, paths, shards, tmp_path / "new"):
        pass
    assert not list(tmp_path.glob("new*"))
