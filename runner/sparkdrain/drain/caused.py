"""Tells user code what is there only because the job is drained. Never travels with elements.

A bundle is either caused by drain as a whole, or it is not: the runner ends one and begins
another where that changes. So whatever a bundle makes has its mark, combined values too.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Present(threading.local):
    caused = False


_PRESENT = _Present()


def caused_by_drain() -> bool:
    """Whether what is processed now would not be there yet without the drain.

    To be asked in a method of a DoFn: of a timer or a window that fired because the drain has
    brought time to its end, of an element that was made of such (also in other stages, behind any
    number of shuffles and combines), and in ``on_drain``. False in every other case: for elements
    that were read before the cut, in batch, and in other runners.
    """
    return _PRESENT.caused


@contextlib.contextmanager
def causing() -> Iterator[None]:
    """What runs in this thread meanwhile is caused by drain."""
    before, _PRESENT.caused = _PRESENT.caused, True
    try:
        yield
    finally:
        _PRESENT.caused = before
