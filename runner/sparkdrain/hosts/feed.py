"""What goes from a task to a host, while the task takes what comes back."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Final

from sparkdrain.hosts.frames import ConnectionEnded, FrameKind, FrameWriter, sender, widen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sparkdrain.lines.encrypted import Connection

# What a socket takes before the other end reads from it, on every system. Most calls have less to
# say, and a thread costs more than the rest of such a call.
_AT_ONCE_BYTES: Final = 32 << 10


class CallFeed:
    """Sends a request and records to a host; in a thread, unless they are few.

    A thread, as the host may wait for the task to take pairs while it is to be sent more.

    Raises:
        Exception: what the records raise; the connection is closed then.
    """

    def __init__(self, connection: Connection, request: bytes, records: Iterable[bytes]) -> None:
        widen(connection)
        self._connection = connection
        self._send = sender(connection)
        self._records = iter(records)
        self._over = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        try:
            opening, whole = self._open(request)
        except BaseException:
            connection.close()
            raise
        if whole and len(opening) <= _AT_ONCE_BYTES:
            # A host that is gone is noticed where its answer is read.
            with contextlib.suppress(ConnectionEnded):
                self._send(opening)
            return
        self._thread = threading.Thread(
            target=self._run, args=(opening, whole), name="host-feed", daemon=True
        )
        self._thread.start()

    def _open(self, request: bytes) -> tuple[bytes, bool]:
        """The first bytes to send, and whether they are all there is to send."""
        opening = bytearray()
        writer = FrameWriter(opening.extend)
        writer.tell(FrameKind.REQUEST, request)
        size = len(request)
        for record in self._records:
            writer.add(0, record)
            # With what a frame adds to each record.
            size += len(record) + 32
            if size > _AT_ONCE_BYTES:
                writer.flush()
                return bytes(opening), False
        writer.tell(FrameKind.END)
        return bytes(opening), True

    def _run(self, opening: bytes, whole: bool) -> None:
        try:
            self._send(opening)
            if not whole:
                self._send_rest()
        except ConnectionEnded:
            return
        except BaseException as error:  # noqa: BLE001 - raised again by ``check``
            self._error = error
            self._hang_up()
        finally:
            if self._over:
                self._connection.close()

    def _send_rest(self) -> None:
        writer = FrameWriter(self._send)
        for record in self._records:
            if self._over:
                return
            writer.add(0, record)
        writer.tell(FrameKind.END)

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """The host has done its part: when this returns, no thread takes records any more.

        Raises:
            Exception: what the records raised, if they did.
        """
        self._over = True
        if self._thread is not None:
            self._hang_up()
            self._thread.join()
        self.check()

    def check(self) -> None:
        """Raise what the records raised, if they did."""
        if self._error is not None:
            raise self._error

    def abandon(self) -> None:
        """Let the host know that the task does not wait any more. Idempotent."""
        self._over = True
        self._hang_up()
        # Not while the thread may be about to send: the descriptor could be another file's.
        if self._thread is None or not self._thread.is_alive():
            self._connection.close()
