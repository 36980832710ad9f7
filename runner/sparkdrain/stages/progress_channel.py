"""How slots at work tell the driver how far they are: best effort, and never in a task's way.

A connection carries the token of the job and then, as long as the task runs, frames of
``[level u32][slot u32][elements u64]``.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import selectors
import socket
import struct
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FRAME: Final = struct.Struct(">IIQ")
_TOKEN_BYTES: Final = 16
_TICK_SECONDS: Final = 0.5
_SEND_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class ProgressAddress:
    """Where the driver listens; travels with the task."""

    host: str
    port: int
    token: bytes


class ProgressListener:
    """The driver's side: one thread for all slots of a job.

    Args:
        host: an address of this machine that executors can reach.
        interface: the address to listen at.
        tick: takes level, slot and the number of elements that it has handled.

    Raises:
        OSError: nothing can listen there.
    """

    def __init__(self, host: str, interface: str, tick: Callable[[int, int, int], None]) -> None:
        self._tick = tick
        self._server = socket.create_server((interface, 0), backlog=1024)
        self._server.setblocking(False)
        token = secrets.token_bytes(_TOKEN_BYTES)
        self.address = ProgressAddress(host, self._server.getsockname()[1], token)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._server, selectors.EVENT_READ)
        self._waker, woken = socket.socketpair()
        self._selector.register(woken, selectors.EVENT_READ)
        self._woken = woken
        self._received: dict[socket.socket, bytes] = {}
        self._known: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._run, name="progress-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._waker.close()
        self._thread.join()

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                if connection is self._woken:
                    return self._close_all()
                if connection is self._server:
                    self._accept()
                elif not self._take(connection):
                    self._forget(connection)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._server.accept()
            connection.setblocking(False)
            self._received[connection] = b""
            self._selector.register(connection, selectors.EVENT_READ)

    def _take(self, connection: socket.socket) -> bool:
        """Whether there may be more."""
        try:
            chunk = connection.recv(1 << 16)
        except BlockingIOError:
            return True
        except OSError:
            return False
        data = self._received[connection] + chunk
        if connection not in self._known:
            if len(data) < _TOKEN_BYTES:
                self._received[connection] = data
                return bool(chunk)
            if not hmac.compare_digest(data[:_TOKEN_BYTES], self.address.token):
                return False
            self._known.add(connection)
            data = data[_TOKEN_BYTES:]
        whole = len(data) - len(data) % _FRAME.size
        for frame in _FRAME.iter_unpack(data[:whole]):
            self._tick(*frame)
        self._received[connection] = data[whole:]
        return bool(chunk)

    def _forget(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        self._known.discard(connection)
        del self._received[connection]
        connection.close()

    def _close_all(self) -> None:
        for connection in [*self._received, self._server, self._woken]:
            connection.close()
        self._selector.close()


@contextmanager
def ticking(
    address: ProgressAddress | None,
    level: int,
    slot: int,
    handled: Callable[[], int],
    seconds: float = _TICK_SECONDS,
) -> Iterator[None]:
    """While entered, tell the driver every ``seconds`` what ``handled`` says.

    Does nothing without an address, and gives up for good at the first trouble.
    """
    if address is None:
        yield
        return
    ended = threading.Event()

    def tick() -> None:
        # Whatever happens here, the task must not notice.
        with contextlib.suppress(Exception):
            if ended.wait(seconds):
                return
            with socket.create_connection((address.host, address.port), _SEND_SECONDS) as driver:
                driver.sendall(address.token)
                while True:
                    driver.sendall(_FRAME.pack(level, slot, handled()))
                    if ended.wait(seconds):
                        return

    threading.Thread(target=tick, name="sparkdrain-progress", daemon=True).start()
    try:
        yield
    finally:
        ended.set()
