"""A proxy of TCP that goes mute: connections stay, and nothing comes through any more."""

from __future__ import annotations

import contextlib
import socket
import threading


class MuteProxy:
    """Stands before a server, until ``close``. After ``mute`` it is as if its machine lost power.

    Args:
        to: ``host:port`` of the server.
    """

    def __init__(self, to: str) -> None:
        host, _, port = to.rpartition(":")
        self._to = host, int(port)
        self._is_mute = threading.Event()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def mute(self) -> None:
        """Pass nothing on from now on, the end of a connection neither."""
        self._is_mute.set()

    def close(self) -> None:
        self.mute()
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                one, _ = self._listener.accept()
                other = socket.create_connection(self._to)
                self._sockets += (one, other)
                for ends in ((one, other), (other, one)):
                    threading.Thread(target=self._pass, args=ends, daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if self._is_mute.is_set():
                    return
                target.sendall(data)
            if not self._is_mute.is_set():
                target.shutdown(socket.SHUT_WR)
