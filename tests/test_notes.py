"""Notes of exceptions are printed once, by Python itself or, before 3.11, by us."""

from __future__ import annotations

import pytest

from sparkdrain.notes import add_note, message_of, notes_of, trace_of


@pytest.mark.parametrize("printed", [message_of, trace_of])
def test_each_note_is_printed_once_behind_the_message(printed):
    error = ValueError("bad row")
    add_note(error, "first note")
    add_note(error, "second note")
    assert notes_of(error) == ["first note", "second note"]
    assert printed(error).strip().endswith("ValueError: bad row\nfirst note\nsecond note")
    assert printed(error).count("first note") == 1


def test_an_exception_without_notes_is_printed_as_it_is():
    assert notes_of(ValueError("bad row")) == []
    assert message_of(ValueError("bad row")) == "ValueError: bad row"
