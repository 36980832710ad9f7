"""A host: the process that serves the calls for one slot, one after the other."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import socket
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Final, NoReturn

from sparkdrain.hosts.frames import (
    ConnectionEnded,
    FrameKind,
    FrameReader,
    FrameWriter,
    records_of,
    sender,
)
from sparkdrain.hosts.service import Abandoned, Stopped
from sparkdrain.lines.line import Line, tune

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType

    from sparkdrain.hosts.lookout import Lookout
    from sparkdrain.hosts.service import Service
    from sparkdrain.lines.door import Door
    from sparkdrain.lines.encrypted import Connection

_LOOK_SECONDS: Final = 0.05
# Over a network, its end is not always one for both directions; not all systems know this.
_HUNG_UP: Final = getattr(select, "POLLRDHUP", 0)
_GRACE_SECONDS: Final = 20.0
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


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


class Host:
    """Runs a service in this process's main thread until the process is told to end.

    Args:
        listener: where tasks of this executor connect.
        remote: where other tasks connect, and show that they know the key; None if there is one
            executor only.
        lifeline: a pipe that ends with the process that watches this one.
        scratch: a directory for the service.
        make_service: called when the first call has come.
        describe: how an exception of the service is told to the task.
        lookout: what the warden looks through.
    """

    def __init__(
        self,
        listener: socket.socket,
        remote: socket.socket | None,
        door: Door,
        lifeline: int,
        scratch: Path,
        make_service: Callable[[Path], Service],
        describe: Callable[[BaseException], bytes],
        lookout: Lookout,
    ) -> None:
        self._lookout = lookout
        self._listener = listener
        self._remote = remote
        self._door = door
        self._admitted: queue.SimpleQueue[Connection] = queue.SimpleQueue()
        # Rings for each that was admitted: the main thread waits for it with the listeners.
        self._bell, self._rung = socket.socketpair()
        self._lifeline = lifeline
        self._scratch = scratch
        self._make_service = make_service
        self._describe = describe
        self._service: Service | None = None
        self._stopping = False
        self._interruptible = True

    def run(self) -> None:
        """Serve until SIGTERM, or until making the service fails; then close the service."""
        try:
            for number in _ENDING:
                signal.signal(number, self._stop)
            sys.unraisablehook = _print_all_but_stopped
            threading.Thread(target=self._follow, name="host-lifeline", daemon=True).start()
            self._lookout.answer(self._look)
            while not self._stopping:
                self._serve(self._next())
        except Stopped:
            pass
        finally:
            self._interruptible = False
            self._close()

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping = True
        if self._interruptible:
            # Out of whatever this is in the middle of, sleep and endless loops of user code
            # included. The signal comes again and again: some places, finalizers above all,
            # swallow exceptions.
            raise Stopped

    def _follow(self) -> NoReturn:
        """End with the warden, even if that was killed. In a thread."""
        # They are the main thread's: it may have to be woken.
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        os.read(self._lifeline, 1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        time.sleep(_GRACE_SECONDS)
        os._exit(1)

    def _next(self) -> Connection:
        waiting = select.poll()
        for source in (self._listener, self._remote, self._rung):
            if source is not None:
                waiting.register(source, select.POLLIN)
        while True:
            self._check()
            ready = {descriptor for descriptor, _ in waiting.poll()}
            if self._listener.fileno() in ready:
                return self._listener.accept()[0]
            if self._rung.fileno() in ready:
                self._rung.recv(1)
                return self._admitted.get()
            if self._remote is not None and self._remote.fileno() in ready:
                connected = self._remote.accept()[0]
                # In a thread of its own: a stranger is not to stop the rounds.
                threading.Thread(
                    target=self._meet, args=(connected,), name="host-door", daemon=True
                ).start()

    def _meet(self, connected: socket.socket) -> None:
        # They are the main thread's: it may have to be woken.
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        # The task may be gone.
        with Line(connected) as line, contextlib.suppress(OSError):
            tune(connected)
            if self._door.admits(line):
                self._admitted.put(line.detach())
                self._bell.send(b"!")

    def _look(self) -> bytes:
        return b"" if self._service is None else self._service.look()

    def _check(self) -> None:
        if self._stopping:
            raise Stopped

    def _serve(self, connection: Connection) -> None:
        with connection:
            caller = Caller(connection, self._check)
            try:
                request = caller.request(str(os.getpid()).encode())
                self._lookout.begun()
                self._answer(caller, request)
            except Stopped:
                raise
            except Abandoned:
                # No caller is left to be told; the service knows, and the next call may come.
                pass
            finally:
                self._lookout.ended()

    def _answer(self, caller: Caller, request: bytes) -> None:
        try:
            if self._service is None:
                self._service = self._make_service(self._scratch)
            self._service.run(request, caller.records(), caller.push)
        except Abandoned:
            raise
        except BaseException as error:  # noqa: BLE001 - told to the task, whatever it is
            # Without a service there is nothing to come back to.
            self._stopping = self._stopping or self._service is None
            caller.end(FrameKind.FAILED, self._describe(error))
        else:
            caller.end(FrameKind.DONE)

    def _close(self) -> None:
        # A caller that comes now is to be refused, rather than to wait for nothing.
        for listener in (self._listener, self._remote):
            if listener is not None:
                listener.close()
        if self._service is not None:
            try:
                self._service.close()
            except BaseException:  # noqa: BLE001 - no caller is left to be told
                traceback.print_exc()


def _print_all_but_stopped(unraisable: sys.UnraisableHookArgs) -> None:
    """Say nothing of a finalizer that a signal ended: the signal comes again."""
    if not isinstance(unraisable.exc_value, Stopped):
        sys.__unraisablehook__(unraisable)
