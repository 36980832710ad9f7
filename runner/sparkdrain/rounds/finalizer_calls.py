"""Calls bundle finalizers, and goes on without those that hang."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from sparkdrain.in_time import InTime, NoAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")
_LOGGER = logging.getLogger(__name__)
LIMIT_SECONDS: Final = 10.0
"""How long a round waits for the finalizers of one transform."""
_MOST_WAITING: Final = 1000


@dataclass(slots=True)
class _Line:
    """The finalizers of one transform that wait, and the thread that calls them.

    Attributes:
        waiting: finalizers, each with what is to be done once it was called.
        is_told: whether the log knows that the line does not move.
    """

    calls: InTime
    waiting: deque[tuple[Callable[[], object], Callable[[], object]]] = field(default_factory=deque)
    is_told: bool = False

    def move(self) -> None:
        """Call all that wait; in the thread, which goes on when it is not waited for any more."""
        while self.waiting:
            callback, then = self.waiting.popleft()
            _call(callback)
            then()


class FinalizerCalls:
    """Calls the finalizers of one slot; those of one transform in their order, in a thread.

    A round waits for them ``seconds``. If they take longer, rounds go on: later finalizers of the
    same transform wait behind them, 1,000 at most, and those of other transforms are called. When
    a finalizer that hung returns after all, the thread calls those that wait.

    Args:
        seconds: how long to wait.
    """

    def __init__(self, seconds: float = LIMIT_SECONDS) -> None:
        self._seconds = seconds
        self._lines: dict[str, _Line] = {}

    def call(
        self,
        transform: str,
        callbacks: Iterable[tuple[Callable[[], object], Callable[[], object]]] = (),
    ) -> None:
        """Call finalizers of a transform, each with what is to be done then, in the thread."""
        line = self._line(transform)
        line.waiting.extend(callbacks)
        if not line.waiting:
            return
        try:
            line.calls.call("They", line.move)
        except NoAnswer:
            self._tell(line, transform)
        else:
            line.is_told = False

    def ask(self, transform: str, question: Callable[[], T], otherwise: T, more: float = 0.0) -> T:
        """What ``question``, code of the user's, answers in time, else ``otherwise``.

        Args:
            transform: whose code it is.
            question: asks; catches what it can raise.
            otherwise: see above.
            more: seconds to wait beyond the usual ones.
        """
        line = self._line(transform)
        calls = InTime(self._seconds + more, "finalizers") if more else line.calls
        try:
            return calls.call("They", question)
        except NoAnswer:
            self._tell(line, transform)
            return otherwise

    def _line(self, transform: str) -> _Line:
        if transform not in self._lines:
            self._lines[transform] = _Line(InTime(self._seconds, "finalizers"))
        return self._lines[transform]

    def _tell(self, line: _Line, transform: str) -> None:
        if not line.is_told:
            line.is_told = True
            _LOGGER.warning(
                "The bundle finalizers of %s have not returned after %g seconds. Rounds go on; "
                "later finalizers of this step wait for them, %d at most. Give the calls to other "
                "systems in its finalizers time limits.",
                transform,
                self._seconds,
                _MOST_WAITING,
            )
        dropped = 0
        while len(line.waiting) > _MOST_WAITING:
            _, then = line.waiting.popleft()
            then()
            dropped += 1
        if dropped:
            _LOGGER.warning("%d bundle finalizers of %s are not called.", dropped, transform)


def _call(callback: Callable[[], object]) -> None:
    try:
        callback()
    except BaseException:
        _LOGGER.warning("a bundle finalizer failed", exc_info=True)
