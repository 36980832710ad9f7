"""Callbacks of bundles that wait until what their bundles did is safe (bundle finalization)."""

from __future__ import annotations

import itertools
import logging
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from sparkdrain.in_time import InTime, NoAnswer
from sparkdrain.rounds.kept_finalizers import Acknowledgement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sparkdrain.rounds.kept_finalizers import FinalizerRow, KeptFinalizers

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
            try:
                callback()
            except BaseException:
                _LOGGER.warning("a bundle finalizer failed", exc_info=True)
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


@dataclass(frozen=True, slots=True)
class _Waiting:
    transform: str
    callback: Callable[[], object]
    row: FinalizerRow | None = None


class Finalizers:
    """Bundle finalizers of one slot, in the order of their bundles.

    A finalizer that is kept is part of the slot's state. After a loss it runs again, until a
    checkpoint knows that it has run; an ``Acknowledgement`` must also have had its effect. All
    other finalizers run at most once. What a finalizer raises is logged, as Beam does.

    Args:
        kept: callbacks wait for a checkpoint that covers their round, and are kept here; without,
            they wait for the round alone.
    """

    def __init__(
        self, kept: KeptFinalizers | None = None, calls: FinalizerCalls | None = None
    ) -> None:
        self.durable = kept is not None
        self._calls = FinalizerCalls() if calls is None else calls
        # Rows of finalizers that were called, also by a thread that no round waited for.
        self._called: deque[FinalizerRow] = deque()
        self._kept = kept
        self._round: list[_Waiting] = []
        self._open: list[_Waiting] = []
        self._covered: deque[tuple[int, list[_Waiting]]] = deque()
        self._unsettled: dict[tuple[str, str], _Waiting] = {}
        # Rows of finalizers that have run, and those of them that this round removes.
        self._done: list[FinalizerRow] = []
        self._removed: list[FinalizerRow] = []

    # --- in a round ---------------------------------------------------------------------------

    def registered(
        self, number: int, callbacks: Iterable[tuple[str, Callable[[], object]]]
    ) -> None:
        """A round has registered these; what is kept of them is part of its state.

        Args:
            callbacks: (transform id, callback) pairs.
        """
        kept = self._kept
        self._collect_settled()
        while self._called:
            self._done.append(self._called.popleft())
        if kept is None:
            self._round = [_Waiting(transform, callback) for transform, callback in callbacks]
            return
        for row in self._done:
            kept.remove(row)
        self._removed = list(self._done)
        self._round = [
            _Waiting(transform, callback, kept.put(number, count, transform, callback))
            for count, (transform, callback) in enumerate(callbacks)
        ]

    def _collect_settled(self) -> None:
        of_transform: dict[str, list[_Waiting]] = {}
        for waiting in self._unsettled.values():
            of_transform.setdefault(waiting.transform, []).append(waiting)
        for transform, asked in of_transform.items():
            nothing: list[_Waiting] = []
            settled = set(map(id, self._calls.ask(transform, partial(_settled, asked), nothing)))
            for ident, waiting in list(self._unsettled.items()):
                if id(waiting) in settled:
                    self._forget(ident, waiting)

    def _forget(self, ident: tuple[str, str], waiting: _Waiting) -> None:
        del self._unsettled[ident]
        if waiting.row is not None:
            self._done.append(waiting.row)

    # --- between rounds -----------------------------------------------------------------------

    def committed(self) -> None:
        """The round was committed."""
        taken, self._round = self._round, []
        self._done = self._done[len(self._removed) :]
        self._removed = []
        if self.durable:
            self._open += taken
        else:
            self._run(taken)

    def undone(self) -> None:
        """The round never was."""
        self._round, self._removed = [], []

    def restored(self, callbacks: Iterable[tuple[FinalizerRow, str, Callable[[], object]]]) -> None:
        """A checkpoint that was published has these."""
        self._run([_Waiting(transform, callback, row) for row, transform, callback in callbacks])

    def covered(self, checkpoint: int) -> None:
        """Every round that was committed up to now is part of a checkpoint, once it is there."""
        if self._open:
            self._covered.append((checkpoint, self._open))
            self._open = []

    def published(self, checkpoint: int) -> None:
        """A checkpoint is there, so everything in earlier ones is safe too."""
        while self._covered and self._covered[0][0] <= checkpoint:
            self._run(self._covered.popleft()[1])

    @property
    def unsettled(self) -> int:
        """How many acknowledgements are on their way."""
        return len(self._unsettled)

    def settle(self, seconds: float) -> list[str]:
        """Wait until all acknowledgements have arrived; why some have not.

        Those are begun again.

        Args:
            seconds: how long to wait for each.
        """
        complaints = []
        hangs: str | None = "its finalizers do not return"
        for ident, waiting in list(self._unsettled.items()):
            complaint = self._calls.ask(
                waiting.transform, partial(_settle, waiting, seconds), hangs, seconds
            )
            if complaint is None:
                self._forget(ident, waiting)
                continue
            complaints.append(f"{waiting.transform} {ident[1]}: {complaint}")
            self._calls.call(waiting.transform, [(waiting.callback, _nothing)])
        return complaints

    def _run(self, taken: Sequence[_Waiting]) -> None:
        for transform, group in itertools.groupby(taken, lambda waiting: waiting.transform):
            calls = [(waiting.callback, self._after(waiting)) for waiting in group]
            self._calls.call(transform, calls)
        for waiting in taken:
            if isinstance(waiting.callback, Acknowledgement):
                ident = waiting.transform, waiting.callback.ident
                before = self._unsettled.pop(ident, None)
                # Of one name and round there is one row: that of the newest one.
                if before is not None and before.row not in (None, waiting.row):
                    self._done.append(before.row)
                self._unsettled[ident] = waiting

    def _after(self, waiting: _Waiting) -> Callable[[], object]:
        """What is to be done when a finalizer was called."""
        row = waiting.row
        if row is None or isinstance(waiting.callback, Acknowledgement):
            return _nothing
        return partial(self._called.append, row)


def _nothing() -> None:
    """Nothing is to be done after the call."""


def _settled(asked: list[_Waiting]) -> list[_Waiting]:
    return [waiting for waiting in asked if _settle(waiting, 0.0) is None]


def _settle(waiting: _Waiting, seconds: float) -> str | None:
    assert isinstance(waiting.callback, Acknowledgement)
    try:
        return None if waiting.callback.settle(seconds) else f"nothing after {seconds:g} s"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        return repr(error)
