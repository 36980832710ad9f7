"""The driver's end of what holds a job's hosts: when it lets go, they tear down and end."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sparkdrain.hosts.line import FromLeash, Seen, ToLeash
from sparkdrain.lines.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Set

    from sparkdrain.hosts.line import Ask, HostId, HostRecord, Sight
    from sparkdrain.lines.line import Line
    from sparkdrain.lines.server import Bind

_CLOSE_SECONDS: Final = 30.0
# Longer than a warden takes for it.
_LOOK_SECONDS: Final = 10.0
_LAST_WORD_SECONDS: Final = 5.0
_LOST: Final = "its machine, or the process that looked after it, was lost"


class Leash:
    """Held by the driver of one job, from before its first task to after its last.

    Raises:
        OSError: nothing can listen there.
    """

    def __init__(self, bind: Bind) -> None:
        self._changed = threading.Condition()
        self._records: dict[HostId, HostRecord] = {}
        self._lines: dict[Line, HostRecord] = {}
        self._sights: dict[Line, Sight] = {}
        self._looks = 0
        self._visits = 0
        self._released: set[HostId] = set()
        self._tell_loss: Callable[[], object] = lambda: None
        self._closed = False
        self._server = Server(bind, "leash", self._serve)
        self.endpoint = self._server.endpoint
        """What tasks and hosts dial."""

    def hosts(self) -> tuple[HostRecord, ...]:
        """The latest host of every slot that has had one, ended ones too."""
        with self._changed:
            return tuple(self._records.values())

    def lost(self) -> tuple[HostRecord, ...]:
        """The latest hosts that have ended although they were not told to."""
        with self._changed:
            found = self._records.values()
            return tuple(one for one in found if one.ended and one.id not in self._released)

    def on_loss(self, tell: Callable[[], object]) -> None:
        """Call ``tell``, from some thread, whenever ``lost`` may have more."""
        self._tell_loss = tell

    def visits(self) -> int:
        """How many calls have come to a host from another executor than its own."""
        with self._changed:
            return self._visits

    def look(self, seconds: float = _LOOK_SECONDS) -> tuple[Seen, ...]:
        """What the hosts are doing now; not those that do not tell in ``seconds``."""
        with self._changed:
            self._looks += 1
            number, lines = self._looks, list(self._lines)
        self._speak(lines, FromLeash(look=number))

        def told() -> bool:
            return all(line not in self._lines or self._is_told(line, number) for line in lines)

        with self._changed:
            self._changed.wait_for(told, seconds)
            return tuple(
                Seen(self._lines[line], self._sights[line])
                for line in lines
                if line in self._lines and self._is_told(line, number)
            )

    def _is_told(self, line: Line, number: int) -> bool:
        sight = self._sights.get(line)
        return sight is not None and sight.number == number

    @staticmethod
    def _speak(lines: Sequence[Line], said: FromLeash) -> None:
        for line in lines:
            with contextlib.suppress(OSError):
                line.send(said)

    def release(self, ids: Set[HostId], seconds: float = _CLOSE_SECONDS) -> tuple[HostRecord, ...]:
        """Let some hosts tear down and end, as ``close`` does; new ones may take their places.

        Returns:
            those that did not end in time.
        """
        with self._changed:
            self._released |= ids
            lines = [line for line, record in self._lines.items() if record.id in ids]
        self._speak(lines, FromLeash(close=0.8 * seconds))

        def left() -> list[HostRecord]:
            return [self._lines[line] for line in lines if line in self._lines]

        with self._changed:
            self._changed.wait_for(lambda: not left(), seconds)
            return tuple(left())

    def close(self, seconds: float = _CLOSE_SECONDS) -> tuple[HostRecord, ...]:
        """Let all hosts tear down and end, and wait for them, ``seconds`` at most. Idempotent.

        A host that takes longer is killed by its warden.

        Returns:
            those that did not end in time, or whose end did not get through.
        """
        with self._changed:
            first, self._closed = not self._closed, True
            lines = list(self._lines)
        if first:
            self._server.close()
            # Wardens are to be through, killing included, before the wait is over.
            self._speak(lines, FromLeash(close=0.8 * seconds))
        with self._changed:
            self._changed.wait_for(lambda: not self._lines, seconds)
            return tuple(self._lines.values())

    def _serve(self, line: Line) -> None:
        # Of machines that are lost, all kinds of errors.
        with contextlib.suppress(Exception):
            said = line.recv(ToLeash)
            if said.ask is not None:
                line.send(FromLeash(record=self._answer(said.ask)))
            elif said.record is not None:
                self._hold(line, said.record)

    def _answer(self, question: Ask) -> HostRecord | None:
        def known() -> bool:
            record = self._records.get(question.id)
            return record is None or record.pid != question.ended_pid or bool(record.ended)

        with self._changed:
            self._changed.wait_for(known, _LAST_WORD_SECONDS)
            record = self._records.get(question.id)
            if record is not None and not record.ended and question.visits:
                self._visits += 1
            return record

    def _hold(self, line: Line, record: HostRecord) -> None:
        with self._changed:
            if self._closed:
                return
            other = self._records.get(record.id)
            wanted = other is None or bool(other.ended)
            if wanted:
                self._lines[line] = self._records[record.id] = record
                self._released.discard(record.id)
        if not wanted:
            line.send(FromLeash(record=other))
            return
        ended = _LOST
        try:
            line.send(FromLeash(welcome=True))
            while (sight := (said := line.recv(ToLeash)).sight) is not None:
                with self._changed:
                    self._sights[line] = sight
                    self._changed.notify_all()
            ended = str(said.ended)
        finally:
            with self._changed:
                del self._lines[line]
                self._sights.pop(line, None)
                self._records[record.id] = replace(record, ended=ended)
                is_loss = not self._closed and record.id not in self._released
                self._changed.notify_all()
            if is_loss:
                self._tell_loss()
