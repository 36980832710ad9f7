"""Keeps a client that has lost its broker from telling so many times a second."""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_SECONDS: Final = 60.0
_MOST: Final = 1000
_NUMBERS: Final = re.compile(r"0x[0-9a-f]+|\d+")


class OncePerMinute(logging.Filter):
    """Lets each message through once a minute; numbers do not make it another one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._told: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to tell."""
        now, message = self._clock(), _NUMBERS.sub("", record.getMessage())
        last = self._told.get(message)
        if last is not None and now - last < _SECONDS:
            return False
        if len(self._told) >= _MOST:
            self._told.clear()
        self._told[message] = now
        return True
