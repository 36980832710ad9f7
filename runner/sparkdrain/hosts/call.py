"""A Spark task's side of a call: finds or starts the host, and is a pipe of records to it."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sparkdrain.errors import BadSetup, HostMissing, WorkerLost
from sparkdrain.file_lock import LockKept
from sparkdrain.hosts.frames import (
    ConnectionEnded,
    FrameKind,
    FrameReader,
    FrameWriter,
    records_of,
    sender,
)
from sparkdrain.hosts.line import Ask, ask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sparkdrain.hosts.birth import HostDaemon
    from sparkdrain.lines.encrypted import Connection

_ATTEMPTS: Final = 3
# What a socket takes before the other end reads from it, on every system. Most calls have less to
# say, and a thread costs more than the rest of such a call.
_AT_ONCE_BYTES: Final = 32 << 10


def call(
    daemon: HostDaemon,
    request: bytes,
    records: Iterable[bytes],
    *,
    fresh: bool,
    failure: Callable[[bytes], Exception],
) -> Iterator[tuple[int, bytes]]:
    """Have a host serve one call; the pairs that it pushes come out, in bounded memory.

    The host may be on another executor: Spark runs a slot's tasks where it likes. A call waits
    while the host serves another one. What the caller does not wait for any more is given up:
    close the generator, or end the process.

    Args:
        daemon: whose state is needed, and how it is started.
        request: for the service.
        records: for the service; a thread takes them while pairs come out.
        fresh: whether a host may be started, if there is none, as it holds no state yet.
        failure: the exception to raise here for what ``daemon.describe`` said there.

    Raises:
        HostMissing: there is no host, and a new one would lack the state.
        WorkerLost: the host ended in the middle of the call.
        BadSetup: the host could not be started.
        Exception: ``failure``'s, if the service failed.
    """
    connection, reader, pid = _reach(daemon, fresh=fresh)
    feed = CallFeed(connection, request, records)
    try:
        while True:
            kind, table, payload = reader.frame()
            if kind is FrameKind.DONE:
                break
            if kind is FrameKind.FAILED:
                raise failure(payload)
            yield from records_of(table, payload)
        feed.end()
    except ConnectionEnded:
        feed.check()
        raise _lost(daemon, pid) from None
    finally:
        feed.abandon()


def _reach(daemon: HostDaemon, *, fresh: bool) -> tuple[Connection, FrameReader, int]:
    """A connection to a host that waits for the request, what reads from it, the host's id."""
    for _ in range(_ATTEMPTS):
        connection: Connection | None = daemon.home.connect() or _connect_elsewhere(daemon)
        if connection is None and fresh:
            connection = _start(daemon)
        if connection is None:
            # If it was to be started, there is one elsewhere now.
            continue
        reader = FrameReader(connection)
        try:
            return connection, reader, int(reader.payload(FrameKind.HELLO))
        except ConnectionEnded:  # It was about to end when we came.
            connection.close()
    raise _missing(daemon)


def _connect_elsewhere(daemon: HostDaemon) -> Connection | None:
    """A connection to the host that the driver knows of, if it is alive."""
    known = ask(daemon.leash, Ask(daemon.id, visits=True))
    if known is None or known.ended:
        return None
    if known.address is None and (connection := daemon.home.connect()) is not None:
        # Another task has started it a moment ago.
        return connection
    try:
        if known.address is not None:
            return replace(daemon.leash, address=known.address).dial().detach()
        raise ConnectionRefusedError
    except (OSError, EOFError):
        # It has just ended, or it is out of reach: the driver will know.
        ask(daemon.leash, Ask(daemon.id, known.pid))
        return None


def _start(daemon: HostDaemon) -> Connection | None:
    home = daemon.home
    scratch = None
    try:
        with home.locked() as lock:
            # Another task may have been faster.
            connection = home.connect()
            if connection is None:
                scratch = home.enter(lock)
                with home.listen() as listener:
                    daemon.start(listener, scratch)
                connection = home.connect()
            return connection
    except LockKept as error:
        message = f"The process for the state of slot {home.slot} cannot be started: {error}"
        raise BadSetup(message) from error
    except BaseException:
        if scratch is not None:
            home.leave(scratch)
        raise


def _missing(daemon: HostDaemon) -> HostMissing:
    host = daemon.id
    here = socket.gethostname()
    known = ask(daemon.leash, Ask(host))
    if known is None:
        where = "no process has held it, as far as the driver can be asked"
    elif known.ended:
        where = f"it was in {known}"
    else:
        where = f"it was in {known}, which does not answer"
    return HostMissing(f"The state of slot {host.slot} is gone: {where}. (Asked from {here}.)")


def _lost(daemon: HostDaemon, pid: int) -> WorkerLost:
    known = ask(daemon.leash, Ask(daemon.id, pid))
    who = f"process {pid}, which ended in an unknown way"
    if known is not None and known.pid == pid:
        who = str(known)
    return WorkerLost(
        f"The process that holds the state of slot {daemon.id.slot} ended while it was at work: "
        f"{who}."
    )


class CallFeed:
    """Sends a request and records to a host; in a thread, unless they are few.

    A thread, as the host may wait for the task to take pairs while it is to be sent more.

    Raises:
        Exception: what the records raise; the connection is closed then.
    """

    def __init__(self, connection: Connection, request: bytes, records: Iterable[bytes]) -> None:
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
            if whole:
                return
            writer = FrameWriter(self._send)
            for record in self._records:
                if self._over:
                    return
                writer.add(0, record)
            writer.tell(FrameKind.END)
        except ConnectionEnded:
            return
        except BaseException as error:  # noqa: BLE001 - raised again by ``check``
            self._error = error
            self._hang_up()
        finally:
            if self._over:
                self._connection.close()

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
