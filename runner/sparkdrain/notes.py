"""Notes of exceptions: paragraphs behind the message, and which step an exception is about.

Python itself adds and prints the former (PEP 678) since 3.11 only.
"""

from __future__ import annotations

import traceback
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_READ_BY: Final = "_read_by_step"
_MADE_BY: Final = "_made_by_step"


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


@contextmanager
def _noting(what: str, step: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        if not hasattr(error, what):
            setattr(error, what, step)
        raise


read_by = partial(_noting, _READ_BY)
"""What happens in this block is about the input of a step: of a GroupByKey, or before one.

User code runs between steps, too: coders, window functions that merge, what maps windows.
"""
made_by = partial(_noting, _MADE_BY)
"""What happens in this block is about what a step has made.

Values that cannot change any more are encoded late, when that step is not at work.
"""


def reader_of(error: BaseException) -> str | None:
    """The step that ``read_by`` has noted down."""
    return getattr(error, _READ_BY, None)


def maker_of(error: BaseException) -> str | None:
    """The step that ``made_by`` has noted down."""
    return getattr(error, _MADE_BY, None)
