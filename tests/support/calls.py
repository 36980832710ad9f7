"""What code costs in calls of functions, which no load and no slow machine changes."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


def calls_of(work: Callable[[], object], files: tuple[str, ...] = ("",)) -> int:
    """How often work calls a function of Python, in this thread and in those that it starts.

    Args:
        work: what to do.
        files: only functions count whose file has a name that begins with one of these.
    """
    count = 0

    def noted(frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename.startswith(files)

    threading.setprofile(noted)
    sys.setprofile(noted)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return count
