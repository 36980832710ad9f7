"""What user code of a test has seen, in a harness that is a thread of the test's process."""

from __future__ import annotations

import threading

SEEN: list = []


def see(element) -> None:
    """Remember an element. Slots work in the main thread, harnesses in others."""
    assert threading.current_thread() is not threading.main_thread()
    SEEN.append(element)
