"""Tells which user code a round waits for, if it waits long, and ends rounds that take too long."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from sparkdrain.errors import RoundLimitExceeded
from sparkdrain.harness.step_book import step_in
from sparkdrain.rounds.messages import AtWork
from sparkdrain.stages.telling.stack import dumped, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sparkdrain.hosts.line import Seen

_LOOK_SECONDS: Final = 0.5
# Slots whose stacks are told. The others mostly wait in the same place.
_MOST_STACKS: Final = 3
_REMEDY: Final = (
    "The round waits for this code. If it hangs, cancel the job and mend the step. "
    "--round_limit_ms says how long a round may take, --hang_warning_ms when this is told."
)


class HangWatch:
    """Looks at rounds from a thread of its own.

    A round that takes long is told of, again when it has taken twice as long, and so on. The next
    round that takes as long is not told of a second time, so a job of long rounds is not flooded.

    Args:
        patience: how long a round may take before it is told of, in seconds; 0 for ever.
        limit: how long a round may take, in seconds; 0 for ever.
        tell: takes what is told.
        end: ends what runs for the round, as it takes longer than ``limit``.
    """

    def __init__(
        self,
        patience: float,
        limit: float,
        look: Callable[[], Sequence[Seen]],
        tell: Callable[[str], object],
        end: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._patience = patience
        self._limit = limit
        self._look = look
        self._tell = tell
        self._end = end
        self._clock = clock
        self._tell_after = patience
        self._level = 0
        self._began: float | None = None
        self._exceeded = ""
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hang-watch", daemon=True)

    def start(self) -> None:
        """Begin to look, if there is anything to look for."""
        if self._patience or self._limit:
            self._thread.start()

    def level(self, level: int) -> None:
        """The round goes on with this level, or begins with it."""
        with self._lock:
            self._level = level
            if self._began is None:
                self._began = self._clock()

    def check(self) -> None:
        """Return if the round may go on.

        Raises:
            RoundLimitExceeded: it has taken too long; names the step that it waits for.
        """
        if self._exceeded:
            raise RoundLimitExceeded(self._exceeded)

    def end_round(self) -> None:
        """The round has ended, well or not."""
        with self._lock:
            began, self._began = self._began, None
            if began is not None and self._clock() - began < self._patience:
                self._tell_after = self._patience

    def close(self) -> None:
        """Look no more; nothing is told when this returns."""
        self._closed.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(_LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """Tell of the round, or end it, if it is time for that."""
        with self._lock:
            began, level = self._began, self._level
        if began is None or self._exceeded:
            return
        taken = self._clock() - began
        if self._limit and taken >= self._limit:
            self._exceed(began, level, taken)
        elif self._patience and taken >= self._tell_after:
            self._tell_after = 2 * max(taken, self._tell_after)
            text = f"{_round(level, taken)} {_waits_for(self._look())}"
            if self._is_at(began):
                self._tell(text)

    def _exceed(self, began: float, level: int, taken: float) -> None:
        waits_for = _waits_for(self._look())
        if self._is_at(began):
            self._exceeded = (
                f"{_round(level, taken)} That is more than --round_limit_ms "
                f"({1000 * self._limit:.0f}) allows. {waits_for}"
            )
            self._end()

    def _is_at(self, began: float) -> bool:
        """Whether the round is still the one that began then; a look takes its time."""
        with self._lock:
            return self._began == began


def _round(level: int, taken: float) -> str:
    return f"A round has been at work for {int(taken)} seconds, and is in level {level}."


def _waits_for(hosts: Sequence[Seen]) -> str:
    """Which slots are at work, and what each of them does."""
    busy = [seen for seen in hosts if seen.sight.seconds is not None]
    if not busy:
        return (
            "No slot is at work: Spark has not started its tasks, or no machine of a slot "
            "answers. Look whether the session has cores and executors."
        )
    busy.sort(key=lambda seen: (-(seen.sight.seconds or 0.0), seen.host.id.slot))
    told = [_of_slot(seen) for seen in busy[:_MOST_STACKS]]
    if len(busy) > _MOST_STACKS:
        slots = ", ".join(str(seen.host.id.slot) for seen in busy[_MOST_STACKS:])
        told.append(f"At work too: slots {slots}.")
    return "\n\n".join([*told, _REMEDY])


def _of_slot(seen: Seen) -> str:
    sight = seen.sight
    if sight.told:
        found, keeps = AtWork.decode(sight.told), ""
    else:
        frames = tuple(dumped(sight.dump))
        found = AtWork(step_in(sight.notes, frames), "", frames)
        keeps = (
            " It keeps the interpreter's lock, as C code can: no other thread of the process runs."
            if frames
            else " The process does not answer: it is stopped, or waits for a disk or the network."
        )
    what = f"runs step '{found.step}'" if found.step else "runs no step of the pipeline"
    key = f", for a key with hash {found.key}" if found.key else ""
    where = f"Slot {seen.host.id.slot} ({seen.host}) {what}{key}; it got its part of the level "
    stack = f" Its stack, most recent call last:\n{shown(found.frames)}" if found.frames else ""
    return f"{where}{sight.seconds:.0f} seconds ago.{keeps}{stack}"
