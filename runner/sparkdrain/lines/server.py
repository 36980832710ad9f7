"""Listens for tasks and hosts of a job, in the driver, and says what it binds to."""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import socket
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from sparkdrain.lines.door import Door
from sparkdrain.lines.line import Endpoint, Line, tune

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.lines.encrypted import Certificate
    from sparkdrain.lines.line import Address

# Tasks come in crowds.
_BACKLOG: Final = 1024
_KEY_BYTES: Final = 16
# When no descriptor or thread is left, accepting fails at once, again and again.
_PAUSE_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class TcpBind:
    """An address of this machine; the system chooses a port.

    Attributes:
        host: the name or address at which other machines reach this one.
        interface: the address to listen at.
        certificate: if lines are encrypted.
    """

    host: str
    interface: str
    certificate: Certificate | None = None

    def listen(self) -> tuple[socket.socket, Address]:
        """A listening socket, and what others connect to.

        Raises:
            OSError: nothing can listen there.
        """
        listener = socket.create_server((self.interface, 0), backlog=_BACKLOG)
        return listener, (self.host, listener.getsockname()[1])


@dataclass(frozen=True, slots=True)
class UnixBind:
    """A folder of this machine, which no other user may enter; each listener gets a file in it."""

    folder: str

    def listen(self) -> tuple[socket.socket, Address]:
        """A listening socket, and what others connect to. Raises as ``TcpBind.listen`` does."""
        path = os.path.join(self.folder, f"{secrets.token_hex(8)}.sock")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(path)
            os.chmod(path, 0o600)
            listener.listen(_BACKLOG)
        except BaseException:
            listener.close()
            raise
        return listener, path


Bind: TypeAlias = TcpBind | UnixBind


class Server:
    """Serves each line whose other end knows the key, in a thread of its own.

    Args:
        serve: is given a line; the line is closed when it returns. May raise as a line does.

    Attributes:
        endpoint: what other processes dial.
        is_closed: whether ``close`` was called.

    Raises:
        OSError: nothing can listen there.
    """

    def __init__(self, bind: Bind, name: str, serve: Callable[[Line], None]) -> None:
        self._listener, address = bind.listen()
        certificate = bind.certificate if isinstance(bind, TcpBind) else None
        self.endpoint = Endpoint(address, secrets.token_bytes(_KEY_BYTES), certificate)
        self.is_closed = False
        self._name = name
        self._serve = serve
        self._door = Door(self.endpoint.key, certificate=certificate)
        self._waker, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._listen, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening; lines that are being served stay. Idempotent."""
        self.is_closed = True
        self._waker.close()
        self._thread.join()

    def _listen(self) -> None:
        with self._listener, self._woken, selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while all(key.fileobj is not self._woken for key, _ in selector.select()):
                try:
                    self._accept()
                except (OSError, RuntimeError):
                    time.sleep(_PAUSE_SECONDS)
        if isinstance(self.endpoint.address, str):
            with contextlib.suppress(OSError):
                os.unlink(self.endpoint.address)

    def _accept(self) -> None:
        connected, _ = self._listener.accept()
        connected.setblocking(True)
        # In a thread of its own: a stranger may stay silent for a while.
        threading.Thread(
            target=self._meet, args=(connected,), name=f"{self._name}-line", daemon=True
        ).start()

    def _meet(self, connected: socket.socket) -> None:
        # The other end may be gone.
        with Line(connected) as line, contextlib.suppress(OSError, EOFError):
            tune(connected)
            if self._door.admits(line):
                self._serve(line)
