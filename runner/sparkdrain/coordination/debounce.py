"""Waits until something that changes has not changed for a while."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Debounce(Generic[T]):
    """Says which value has stayed the same for long enough.

    Args:
        seconds: how long.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._value: T | None = None
        self._since = 0.0

    def is_settled(self, value: T, now: float) -> bool:
        """Whether a value is what all calls have had for that long.

        Args:
            value: as it is now.
            now: seconds that pass.
        """
        if value != self._value:
            self._value, self._since = value, now
        return now >= self._since + self._seconds
