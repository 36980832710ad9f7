"""A note says what a slot needs, and is held as long as the slot's process lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from sparkdrain.local_state.files import FileContent
from sparkdrain.local_state.notes import HeldNote, SlotNote, forget, found_notes

A, B = FileContent("a" * 64, 10), FileContent("b" * 64, 20)
NOTE = SlotNote(
    "counting", "/checkpoints/counting", 1, 3, {4: frozenset({A}), 5: frozenset({A, B})}
)

HOLD = """
import sys, time
from pathlib import Path
from sparkdrain.local_state.notes import HeldNote
held = HeldNote(Path(sys.argv[1]), sys.argv[2])
print("held", flush=True)
time.sleep(600)
"""


def test_a_note_is_read_as_it_was_written():
    assert SlotNote.decode(NOTE.encode()) == NOTE
    assert NOTE.contents == {A, B}


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"needs": {"x": []}}', b"\xff"])
def test_what_is_no_note_is_not_taken_for_one(data):
    assert SlotNote.decode(data) is None


def test_slots_of_other_jobs_levels_and_numbers_have_other_notes():
    other = SlotNote("counting", "/elsewhere/counting", 1, 3)
    names = {
        NOTE.name,
        other.name,
        SlotNote("", NOTE.home, 2, 3).name,
        SlotNote("", NOTE.home, 1, 4).name,
    }
    assert len(names) == 4
    assert SlotNote("another name", NOTE.home, 1, 3).name == NOTE.name


def test_a_held_note_is_not_forgotten(tmp_path):
    held = HeldNote(tmp_path, NOTE.name)
    held.write(NOTE)
    (found,) = found_notes(tmp_path)
    assert (found.note, found.is_held) == (NOTE, True)
    assert not forget(tmp_path, NOTE.name)
    again = HeldNote(tmp_path, NOTE.name)  # the next host, before this one is gone
    held.close()
    assert not forget(tmp_path, NOTE.name)
    again.close()
    (found,) = found_notes(tmp_path)
    assert (found.note, found.is_held) == (NOTE, False)
    assert forget(tmp_path, NOTE.name)
    assert not list(tmp_path.iterdir())
    held = HeldNote(tmp_path, NOTE.name)
    held.write(NOTE)
    assert found_notes(tmp_path)[0].is_held
    held.close()


def test_a_note_is_held_until_its_process_is_killed(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path), NOTE.name]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            (tmp_path / f"{NOTE.name}.json").write_bytes(NOTE.encode())
            assert found_notes(tmp_path)[0].is_held
        finally:
            os.kill(process.pid, signal.SIGKILL)
    assert not found_notes(tmp_path)[0].is_held
