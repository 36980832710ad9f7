"""A job goes on with more slots or fewer, and every key is where the shuffle sends its elements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.checkpoints.bring import Bringer
from sparkdrain.checkpoints.manifest import ShardState
from sparkdrain.checkpoints.rescale import groups_of_slot, heir, restore_rescaled, sources_of
from sparkdrain.shuffle.keys import slot_of
from timers_state import DEFAULT_GROUPS, Overlay, RoundStore, key_group
from timers_state.errors import Unmovable
from timers_state.gather import Spread

SLOTS = st.integers(1, 40)
KEYS = [b"%d" % number for number in range(200)]
STATE, OWN = 1, 2


@given(st.binary(), SLOTS)
def test_a_slot_has_the_groups_of_the_keys_that_it_gets(key, slots):
    assert key_group(key) in groups_of_slot(slot_of(key, slots), slots)


@given(SLOTS)
def test_every_group_has_one_slot(slots):
    groups = [group for slot in range(slots) for group in groups_of_slot(slot, slots)]
    assert groups == list(range(DEFAULT_GROUPS))


@given(SLOTS, SLOTS)
def test_whoever_has_something_is_asked_for_it(before, slots):
    for slot in range(slots):
        asked = sources_of(slot, before, slots)
        mine = set(groups_of_slot(slot, slots))
        assert mine <= {group for old in asked for group in groups_of_slot(old, before)}
        assert {old for old in range(before) if heir(old, before, slots) == slot} <= set(asked)
    assert {heir(old, before, slots) for old in range(before)} <= set(range(slots))


def save(storage, paths, directory, slots, own):
    """A level's state in storage, as so many slots would have it."""
    shards = {}
    for slot in range(slots):
        with Overlay(RoundStore(directory / f"live-{slot}"), 1 << 20, rounds=True) as overlay:
            for key in KEYS:
                if slot_of(key, slots) == slot:
                    overlay.scope(STATE, key).value(b"v").set(key)
            if own:
                overlay.scope(OWN, b"").value(b"v").set(b"%d" % slot)
            overlay.prepare()
            overlay.commit()
            overlay.snapshot(directory / f"snapshot-{slot}")
        bringer = Bringer(storage, paths, 1, 0, slot)
        files, _ = bringer.bring(1, directory / f"snapshot-{slot}", lambda: None)
        shards[slot] = ShardState(0, slot, files)
    return shards


def spread(state_id):
    return Spread.OF_SLOT if state_id == OWN else Spread.BY_KEY


@pytest.mark.parametrize(("before", "slots"), [(1, 3), (2, 4), (3, 2), (3, 3), (2, 1)])
def test_keys_go_to_the_slots_that_get_their_elements(storage, paths, tmp_path, before, slots):
    shards = save(storage, paths, tmp_path, before, own=slots >= before)
    owned = []
    for slot in range(slots):
        directory = tmp_path / f"new-{slot}"
        restore_rescaled(storage, paths, shards, slot, slots, directory, spread)
        with Overlay(RoundStore.take_up(directory), 1 << 20, rounds=True) as overlay:
            here = [k for k in KEYS if overlay.scope(STATE, k).value(b"v").get() == k]
            assert here == [key for key in KEYS if slot_of(key, slots) == slot]
            owned.append(overlay.scope(OWN, b"").value(b"v").get())
    if slots >= before:
        assert sorted(own for own in owned if own) == [b"%d" % slot for slot in range(before)]
    assert not list(tmp_path.glob("new-*"))


def test_what_cannot_be_moved_is_an_error_and_leaves_nothing(storage, paths, tmp_path):
    shards = save(storage, paths, tmp_path, 2, own=True)
    with pytest.raises(Unmovable, match="2 slots that become one have state 2"):
        restore_rescaled(storage, paths, shards, 0, 1, tmp_path / "new", spread)
    with pytest.raises(Unmovable, match="state 2 has rows of key group 0"):
        restore_rescaled(storage, paths, shards, 1, 3, tmp_path / "new", lambda _: Spread.BY_KEY)
    assert not list(tmp_path.glob("new*"))
