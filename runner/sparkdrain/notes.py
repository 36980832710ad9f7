"""Notes of exceptions (PEP 678), which Python itself adds and prints since 3.11 only."""

from __future__ import annotations

import traceback


def add_note(error: BaseException, note: str) -> None:
    """Add ``note`` to the paragraphs that are printed behind the message of ``error``."""
    notes = [*notes_of(error), note]
    error.__notes__ = notes  # type: ignore[attr-defined]


def notes_of(error: BaseException) -> list[str]:
    """The notes of ``error``, in the order in which they were added."""
    return getattr(error, "__notes__", [])


def message_of(error: BaseException) -> str:
    """The type and the message of ``error`` as Python prints them, then its notes."""
    return _with_notes("".join(traceback.format_exception_only(error)), error).strip()


def trace_of(error: BaseException, whole: traceback.TracebackException | None = None) -> str:
    """The traceback of ``error`` and of its causes as Python prints them, notes included.

    Args:
        whole: its traceback, if the caller has changed that.
    """
    whole = whole or traceback.TracebackException.from_exception(error)
    return _with_notes("".join(whole.format()), error)


def _with_notes(printed: str, error: BaseException) -> str:
    # Packages may teach an old Python to print notes: `exceptiongroup` does.
    notes = "".join(f"{note}\n" for note in notes_of(error))
    return printed if notes in printed else printed + notes
