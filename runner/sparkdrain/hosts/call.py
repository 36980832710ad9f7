"""A Spark task's side of a call: finds or starts the host, and is a pipe of records to it."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sparkdrain.errors import BadSetup, HostMissing, SparkDrainError, WorkerLost
from sparkdrain.file_lock import LockKept
from sparkdrain.hosts.birth import HostDaemon
from sparkdrain.hosts.feed import CallFeed
from sparkdrain.hosts.frames import ConnectionEnded, FrameKind, FrameReader, records_of
from sparkdrain.hosts.home import Home
from sparkdrain.hosts.line import Ask, ask
from sparkdrain.hosts.process import parent_of
from sparkdrain.notes import trace_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from sparkdrain.hosts.identity import HostId
    from sparkdrain.hosts.service import Service
    from sparkdrain.lines.encrypted import Connection
    from sparkdrain.lines.endpoint import Endpoint

_ATTEMPTS: Final = 3


def in_words(error: BaseException) -> bytes:
    """The traceback of ``error``."""
    return trace_of(error).encode(errors="replace")


def as_it_says(told: bytes) -> Exception:
    """An error with this text."""
    return SparkDrainError(told.decode())


def executor_process() -> int:
    """The process that runs this worker's executor: its daemon's parent."""
    return parent_of(os.getppid())


def call(
    host: HostId,
    make_service: Callable[[Path], Service],
    request: bytes,
    records: Iterable[bytes],
    *,
    leash: Endpoint,
    fresh: bool,
    directory: Path,
    describe: Callable[[BaseException], bytes] = in_words,
    failure: Callable[[bytes], Exception] = as_it_says,
    keeper: Callable[[], int] = executor_process,
    memory_mib: int = 0,
) -> Iterator[tuple[int, bytes]]:
    """Have ``host`` serve one call; the pairs that it pushes come out, in bounded memory.

    The host may be on another executor: Spark runs a slot's tasks where it likes. A call waits
    while the host serves another one. What the caller does not wait for any more is given up:
    close the generator, or end the process.

    Args:
        host: whose state is needed.
        make_service: what a new host makes its service with; called in the host.
        request: for the service.
        records: for the service; a thread takes them while pairs come out.
        leash: the driver that the host belongs to.
        fresh: whether a host may be started, if there is none, as it holds no state yet.
        directory: where hosts of this executor keep their files; for all tasks the same.
        describe: what a new host tells an exception of the service with, now and later.
        failure: the exception to raise here for what ``describe`` said there.
        keeper: finds the process that a new host must not outlive, beside the driver's.
        memory_mib: MiB of memory that a new host may use; 0 means that there is no limit.

    Raises:
        HostMissing: there is no host, and a new one would lack the state.
        WorkerLost: the host ended in the middle of the call.
        BadSetup: the host could not be started.
        Exception: ``failure``'s, if the service failed.
    """
    daemon = HostDaemon(
        host, Home.of(host, directory), leash, keeper, make_service, describe, memory_mib
    )
    line = _reach(daemon, fresh=fresh)
    feed = CallFeed(line.connection, request, records)
    try:
        while True:
            kind, table, payload = line.reader.frame()
            if kind is FrameKind.DONE:
                break
            if kind is FrameKind.FAILED:
                raise failure(payload)
            yield from records_of(table, payload)
        feed.end()
    except ConnectionEnded:
        feed.check()
        raise _lost(daemon, line.pid) from None
    finally:
        feed.abandon()


@dataclass(frozen=True, slots=True)
class _Line:
    """A connection to a host that waits for the request."""

    connection: Connection
    reader: FrameReader
    pid: int


def _reach(daemon: HostDaemon, *, fresh: bool) -> _Line:
    for _ in range(_ATTEMPTS):
        connection: Connection | None = daemon.home.connect() or _connect_elsewhere(daemon)
        if connection is None and fresh:
            connection = _start(daemon)
        if connection is None:
            # If it was to be started, there is one elsewhere now.
            continue
        reader = FrameReader(connection)
        try:
            return _Line(connection, reader, int(reader.payload(FrameKind.HELLO)))
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
