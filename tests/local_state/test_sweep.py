"""No file goes that a slot's process needs; all others do, in time."""

from __future__ import annotations

import contextlib
import os
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.local_state.files import FileContent
from sparkdrain.local_state.folder import StateFolder
from sparkdrain.local_state.notes import FoundNote, HeldNote, SlotNote, found_notes
from sparkdrain.local_state.sweep import outdated, sweep, sweep_now_and_then

DAY = 86_400.0
ROOMY = (1000, 0, 1000)
NAMES = [digit * 64 for digit in "abcdef"]


@pytest.fixture
def folder(tmp_path):
    folder = StateFolder(tmp_path / "state")
    folder.prepare()
    return folder


def now_of(folder: StateFolder) -> float:
    return folder.swept() + 3600


def add(folder: StateFolder, *names: str) -> None:
    for name in names:
        (folder.files / name).write_bytes(b"x" * 10)


def hold(folder: StateFolder, slot: int, *names: str) -> HeldNote:
    note = SlotNote("job", "/checkpoints/job", 0, slot)
    held = HeldNote(folder.notes, note.name)
    files = frozenset(FileContent(name, 10) for name in names)
    held.write(SlotNote("job", "/checkpoints/job", 0, slot, {1: files}))
    return held


def left(folder: StateFolder) -> set[str]:
    return {path.name for path in folder.files.iterdir()}


def test_files_that_no_note_names_go_at_once(folder):
    add(folder, *NAMES[:3])
    held = hold(folder, 0, *NAMES[:2])
    swept = sweep_now_and_then(folder, now_of(folder), lambda _: ROOMY)
    assert (swept.files, swept.bytes, swept.notes) == (1, 10, ())
    assert left(folder) == set(NAMES[:2])
    held.close()


def test_files_of_a_slot_that_no_process_has_stay_a_week(folder):
    add(folder, *NAMES[:2])
    hold(folder, 0, NAMES[0]).close()
    held = hold(folder, 1, NAMES[1])
    now = now_of(folder)
    sweep_now_and_then(folder, now + 6 * DAY, lambda _: ROOMY)
    assert left(folder) == set(NAMES[:2])
    sweep_now_and_then(folder, now + 8 * DAY, lambda _: ROOMY)
    assert left(folder) == {NAMES[1]}
    assert len(found_notes(folder.notes)) == 1
    held.close()
    sweep_now_and_then(folder, now + 6 * DAY, lambda _: ROOMY)
    assert left(folder) == {NAMES[1]}
    sweep_now_and_then(folder, now + 8 * DAY, lambda _: ROOMY)
    assert left(folder) == set()


def test_one_process_of_a_host_sweeps_now_and_then(folder):
    now = now_of(folder)
    add(folder, NAMES[0])
    assert sweep_now_and_then(folder, now, lambda _: ROOMY).files == 1
    add(folder, NAMES[0])
    assert sweep_now_and_then(folder, now + 20, lambda _: ROOMY).files == 0
    with folder.shared():  # files are being kept
        assert sweep_now_and_then(folder, now + 40, lambda _: ROOMY).files == 0
    assert sweep_now_and_then(folder, now + 40, lambda _: ROOMY).files == 1
    add(folder, NAMES[0])
    assert sweep_now_and_then(folder, now - DAY, lambda _: ROOMY).files == 1  # a clock put back


def test_what_a_killed_process_was_copying_goes_after_an_hour(folder):
    part = folder.files / f"{NAMES[0]}.0011.part"
    part.touch()
    now = part.stat().st_mtime
    folder.sweeps(now - 3600)
    sweep_now_and_then(folder, now + 60, lambda _: ROOMY)
    assert part.exists()
    sweep_now_and_then(folder, now + 3700, lambda _: ROOMY)
    assert not part.exists()


def test_nothing_goes_while_a_held_note_cannot_be_read(folder):
    add(folder, *NAMES[:2])
    held = hold(folder, 0, NAMES[0])
    (folder.notes / found_notes(folder.notes)[0].name).with_suffix(".json").write_bytes(b"{")
    sweep_now_and_then(folder, now_of(folder), lambda _: ROOMY)
    assert left(folder) == set(NAMES[:2])
    held.close()
    sweep_now_and_then(folder, now_of(folder), lambda _: ROOMY)
    assert left(folder) == set()


def test_a_user_removes_what_no_process_has(folder):
    add(folder, *NAMES[:3])
    held = hold(folder, 0, NAMES[0])
    hold(folder, 1, NAMES[1]).close()
    swept = sweep(folder, lambda _: True, now_of(folder))
    assert (len(swept.notes), swept.files) == (1, 2)
    assert left(folder) == {NAMES[0]}
    held.close()


def test_a_full_disk_takes_what_was_held_longest_ago(folder):
    add(folder, *NAMES[:3])
    for slot, name in enumerate(NAMES[:3]):
        hold(folder, slot, name).close()
    for number, note in enumerate(found_notes(folder.notes)):
        at = note.seen - 100 + number
        os.utime(folder.notes / f"{note.name}.json", (at, at))
    sweep_now_and_then(folder, now_of(folder), lambda _: (1000, 0, 85))
    assert left(folder) == {NAMES[2]}


@given(
    st.lists(
        st.builds(
            FoundNote,
            st.uuids().map(str),
            st.one_of(
                st.none(),
                st.sets(st.sampled_from(NAMES)).map(
                    lambda names: SlotNote(
                        "", "", 0, 0, {1: frozenset(FileContent(n, 9) for n in names)}
                    )
                ),
            ),
            st.booleans(),
            st.floats(0, 10),
        ),
        max_size=6,
        unique_by=lambda each: each.name,
    ),
    st.dictionaries(st.sampled_from(NAMES), st.integers(1, 20)),
    st.floats(0, 10),
    st.integers(-50, 100),
)
def test_no_more_goes_than_must_and_nothing_that_is_held(found, sizes, before, wanted):
    old = outdated(found, sizes, before, wanted)
    assert not any(each.is_held for each in old)
    assert max(Counter(each.name for each in old).values(), default=1) == 1
    stale = [e for e in found if not e.is_held and (e.seen < before or e.note is None)]
    assert all(each in old for each in stale)
    for_room = [each for each in old if each not in stale]
    kept = [each for each in found if each not in old and not each.is_held]
    assert all(one.seen <= each.seen for one in for_room for each in kept)

    def bytes_of(gone):
        named = {
            c.digest for e in found if e not in gone and e.note is not None for c in e.note.contents
        }
        return sum(size for name, size in sizes.items() if name not in named)

    if for_room:
        assert bytes_of(old[:-1]) < wanted
    if kept:
        assert bytes_of(old) >= wanted
    with contextlib.suppress(ValueError):
        assert max(e.seen for e in for_room) <= min(e.seen for e in kept)
