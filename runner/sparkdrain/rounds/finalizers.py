"""Callbacks of bundles that wait until what their bundles did is safe (bundle finalization)."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LOGGER = logging.getLogger(__name__)


class Finalizers:
    """Of one slot. A callback runs at most once; what it raises is logged, as Beam does.

    Args:
        durable: callbacks wait for a checkpoint that covers their round; else for the round alone.
    """

    def __init__(self, *, durable: bool) -> None:
        self.durable = durable
        self._open: list[Callable[[], object]] = []
        self._covered: deque[tuple[int, list[Callable[[], object]]]] = deque()

    def committed(self, callbacks: Sequence[Callable[[], object]]) -> None:
        """The round that registered these was committed."""
        if self.durable:
            self._open += callbacks
        else:
            _run(callbacks)

    def covered(self, checkpoint: int) -> None:
        """Every round that was committed up to now is part of a checkpoint, once it is there."""
        if self._open:
            self._covered.append((checkpoint, self._open))
            self._open = []

    def published(self, checkpoint: int) -> None:
        """A checkpoint is there, so everything in earlier ones is safe too."""
        while self._covered and self._covered[0][0] <= checkpoint:
            _run(self._covered.popleft()[1])


def _run(callbacks: Sequence[Callable[[], object]]) -> None:
    for callback in callbacks:
        try:
            callback()
        except Exception:
            _LOGGER.warning("a bundle finalizer failed", exc_info=True)
