"""Notes down in an error of a coder which step has made what could not be encoded.

Where values cannot change any more they are encoded late, when that step is not at work.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_MADE_BY: Final = "_made_by_step"


@contextmanager
def made_by(step: str) -> Iterator[None]:
    """What is encoded in this block is what a step has made."""
    try:
        yield
    except Exception as error:
        setattr(error, _MADE_BY, step)
        raise


def maker_of(error: BaseException) -> str | None:
    """The step that ``made_by`` has noted down."""
    return getattr(error, _MADE_BY, None)
