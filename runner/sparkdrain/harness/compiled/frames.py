"""Where another thread stands, looked at while nothing else can happen.

Until Python 3.12, whatever allocates may collect garbage, and with that run Python code and let
other threads go on. ``sys._current_frames`` allocates while it holds the lock under which threads
start and end: who needs that lock then waits for it with the GIL in hand, and the process stands
still for ever (CPython issue 106883; its own remedy, in 3.11.9, is the one here). ``f_back``
allocates while it has a frame in hand that its thread may leave as soon as it goes on.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

# The thread that looks decides alone whether garbage is collected. A fork waits for that: its child
# would never collect any again.
_LOOKING = threading.RLock()
os.register_at_fork(
    before=_LOOKING.acquire,
    after_in_parent=_LOOKING.release,
    after_in_child=_LOOKING.release,
)


@contextmanager
def frame_of(thread: int | None) -> Iterator[FrameType | None]:
    """The innermost frame of a thread; it may be followed outwards until the block ends.

    No garbage is collected in the meantime, in no thread: a few microseconds, mostly.

    Args:
        thread: its identifier; None gives None, as does a thread that has ended.
    """
    with _LOOKING:
        collects = gc.isenabled()
        gc.disable()
        try:
            yield None if thread is None else sys._current_frames().get(thread)  # noqa: SLF001
        finally:
            if collects:
                gc.enable()
