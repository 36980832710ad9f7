"""A host's view of one call: what the task sends, and what goes back to it."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING, Final

from sparkdrain.hosts.frames import (
    ConnectionEnded,
    FrameKind,
    FrameReader,
    FrameWriter,
    records_of,
    sender,
    widen,
)
from sparkdrain.hosts.service import Abandoned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sparkdrain.lines.encrypted import Connection

_LOOK_SECONDS: Final = 0.05
# Over a network, its end is not always one for both directions; not all systems know this.
_HUNG_UP: Final = getattr(select, "POLLRDHUP", 0)


class Caller:
    """The task at the other end of a connection.

    Args:
        check: called at every step of the call; raises if the host is to end.

    Raises:
        Abandoned: in all methods; the task is gone.
    """

    def __init__(
        self,
        connection: Connection,
        check: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        widen(connection)
        self._connection = connection
        self._check = check
        self._clock = clock
        self._reader = FrameReader(connection)
        self._writer = FrameWriter(sender(connection))
        self._hung_up = select.poll()
        # Woken by the end of the connection alone.
        self._hung_up.register(connection, _HUNG_UP)
        self._looked = clock()
        self._all_taken = False

    def request(self, greeting: bytes) -> bytes:
        """Greet the task; what it asks for."""
        try:
            self._look()
            self._writer.tell(FrameKind.HELLO, greeting)
            return self._reader.payload(FrameKind.REQUEST)
        except ConnectionEnded:
            raise Abandoned from None

    def records(self) -> Iterator[bytes]:
        """What the task sends."""
        while not self._all_taken:
            self._check()
            try:
                kind, table, payload = self._reader.frame()
            except ConnectionEnded:
                raise Abandoned from None
            if kind is FrameKind.END:
                self._all_taken = True
                return
            for _, record in records_of(table, payload):
                yield record

    def push(self, item: tuple[int, bytes]) -> None:
        """Send a pair to the task."""
        self._check()
        now = self._clock()
        if now - self._looked > _LOOK_SECONDS:
            self._looked = now
            self._look()
        try:
            self._writer.add(*item)
        except ConnectionEnded:
            raise Abandoned from None

    def end(self, kind: FrameKind, payload: bytes = b"") -> None:
        """Tell the task how the call ended."""
        try:
            self._writer.tell(kind, payload)
            # To close on what has not been read would take back what has been sent.
            while not self._all_taken and self._connection.recv(1 << 20):
                pass
        except (ConnectionEnded, OSError):
            raise Abandoned from None

    def _look(self) -> None:
        if self._hung_up.poll(0):
            raise Abandoned
