"""A TLS connection that two threads can use at the same time."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")
_PART_BYTES: Final = 64 << 10


class EncryptedConnection:
    """Has the methods of a socket that the project uses. One thread may receive while others send.

    Two threads must not be in OpenSSL with one connection. So OpenSSL is called under a lock, never
    waits, and this class waits outside of the lock.

    Args:
        wrapped: the handshake has not been made yet.
        wanted: the certificate that the other end must show, DER.
    """

    def __init__(self, wrapped: ssl.SSLSocket, wanted: bytes) -> None:
        wrapped.setblocking(False)
        self._wrapped = wrapped
        self._wanted = wanted
        self._using = threading.Lock()
        self._sending = threading.Lock()

    def handshake(self) -> None:
        """Agree on keys, and see that both ends show the same certificate.

        Raises:
            OSError: the other end shows another certificate, or is gone.
        """
        self._when_ready(self._wrapped.do_handshake)
        if self._wrapped.getpeercert(binary_form=True) != self._wanted:
            message = "the other end shows the certificate of another job"
            raise ssl.SSLError(message)

    @property
    def family(self) -> socket.AddressFamily:
        """The family of addresses, as of a socket."""
        return socket.AddressFamily(self._wrapped.family)

    def fileno(self) -> int:
        """The descriptor; bytes that come there may be a part of a message only."""
        return self._wrapped.fileno()

    def getsockname(self) -> tuple[str, int]:
        """The address of this end."""
        host, port = self._wrapped.getsockname()[:2]
        return host, port

    def recv(self, size: int, _flags: int = 0) -> bytes:
        """Some bytes, ``size`` at most, with any flags; none at the end of the connection."""
        return self._when_ready(lambda: self._wrapped.recv(size))

    def sendall(self, data: bytes) -> None:
        """Send all of the bytes."""
        left = memoryview(data)
        with self._sending:
            while left:
                sent = self._when_ready(partial(self._wrapped.send, left[:_PART_BYTES]))
                left = left[sent:]

    def _when_ready(self, act: Callable[[], _T]) -> _T:
        while True:
            with self._using:
                try:
                    return act()
                except ssl.SSLWantReadError:
                    wanted = select.POLLIN
                except ssl.SSLWantWriteError:
                    wanted = select.POLLOUT
            waiting = select.poll()
            waiting.register(self._wrapped, wanted)
            waiting.poll()

    def shutdown(self, how: int) -> None:
        """End the connection below; a thread that waits is woken."""
        # Not as an SSLSocket does: it would read what comes afterwards as it is.
        socket.socket.shutdown(self._wrapped, how)

    def close(self) -> None:
        """Close the connection."""
        self._wrapped.close()

    def __enter__(self) -> EncryptedConnection:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


Connection: TypeAlias = socket.socket | EncryptedConnection
