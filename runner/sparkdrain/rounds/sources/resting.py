"""How long a source rests that had nothing to give, and does not say when to ask it again."""

from __future__ import annotations

from typing import Final

_FIRST: Final = 5_000
_MOST: Final = 200_000
MOST_IDLE: Final = 15
"""Counting further changes nothing."""


def rest_of(now: int, idle: int) -> int:
    """Microseconds from ``now`` until it is asked again.

    That is at the next multiple of a period, so that all that rest wake up together: first 5 ms,
    each time twice that, at most 200 ms.

    Args:
        now: processing time, microseconds.
        idle: how often in a row it had nothing.
    """
    if idle == 0:
        return 0
    period = min(_MOST, _FIRST << min(idle - 1, MOST_IDLE))
    return period - now % period
