"""Ends what takes too long in a slot while the job is drained; user code that hangs, above all."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from typing import TYPE_CHECKING, Final

from sparkdrain.errors import DrainLimitExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from sparkdrain.drain.limits import LimitKind, Limits

_LOGGER = logging.getLogger(__name__)

# User code may swallow an exception; it gets another one, as often as it does.
_AGAIN_SECONDS: Final = 1.0


@contextlib.contextmanager
def limited(
    limits: Limits, kind: LimitKind, who: str, clock: Callable[[], float] = time.monotonic
) -> Iterator[None]:
    """What runs meanwhile may take as long as ``limits`` says of its kind, and no longer.

    In a main thread, as that of a host is, it is interrupted wherever it is. In another one it
    ends first, and is found to have taken too long then.

    Args:
        kind: the limit that holds.
        who: does it, for the message.

    Raises:
        DrainLimitExceeded: it takes too long, and the policy is not to wait.
    """
    due = limits.due(kind)
    if due is None:
        yield
        return
    began, times = clock(), 0

    def again() -> float:
        """Raise; or tell, and answer after how many seconds to come again."""
        nonlocal times
        taken = clock() - began
        if limits.policy != "wait":
            raise DrainLimitExceeded(limits.told(kind, who, taken))
        if taken >= (limits.due(kind, times) or 0.0):
            _LOGGER.warning("%s", limits.told(kind, who, taken))
            times += 1
        return max((limits.due(kind, times) or 0.0) - taken, 0.001)

    with _alarm(due, again):
        yield
    if clock() - began >= due:
        again()


@contextlib.contextmanager
def _alarm(seconds: float, ring: Callable[[], float]) -> Iterator[None]:
    """Have ``ring`` called after so long, and then when it wants: in a main thread, this one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(_number: int, _frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)
        signal.setitimer(signal.ITIMER_REAL, ring())

    began = time.monotonic()
    before = signal.signal(signal.SIGALRM, handle)
    left, every = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:  # an alarm of other code, such as a test's
            passed = time.monotonic() - began
            signal.setitimer(signal.ITIMER_REAL, max(left - passed, 0.001), every)
