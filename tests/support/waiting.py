"""Waiting for what is sure to come."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def wait_until(holds: Callable[[], Any], seconds: float = 30.0, pause: float = 0.005) -> Any:
    """Ask ``holds`` until what it gives is true; what it gave."""
    deadline = time.monotonic() + seconds
    while not (value := holds()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(pause)
    return value
