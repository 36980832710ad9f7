"""Notes down in an error, on its way up, which step it is about.

There is user code that runs between steps: coders, window functions that merge, what maps windows.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_READ_BY: Final = "_read_by_step"
_MADE_BY: Final = "_made_by_step"


@contextmanager
def read_by(step: str) -> Iterator[None]:
    """What happens in this block is about the input of a step: of a GroupByKey, or before one."""
    try:
        yield
    except BaseException as error:
        _note(error, _READ_BY, step)
        raise


@contextmanager
def made_by(step: str) -> Iterator[None]:
    """What happens in this block is about what a step has made.

    Values that cannot change any more are encoded late, when that step is not at work.
    """
    try:
        yield
    except BaseException as error:
        _note(error, _MADE_BY, step)
        raise


def _note(error: BaseException, what: str, step: str) -> None:
    if not hasattr(error, what):
        setattr(error, what, step)


def reader_of(error: BaseException) -> str | None:
    """The step that ``read_by`` has noted down."""
    return getattr(error, _READ_BY, None)


def maker_of(error: BaseException) -> str | None:
    """The step that ``made_by`` has noted down."""
    return getattr(error, _MADE_BY, None)
