"""A TLS connection that two threads can use at the same time, and the certificate of a job."""

from __future__ import annotations

import datetime as dt
import select
import socket
import ssl
import tempfile
import threading
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from sparkdrain.errors import BadSetup

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")
_PART_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate that signs itself, and its private key.

    The pair travels to the executors as the key of the job does, in Spark's own traffic. Both ends
    of a line show the certificate and accept no other.

    Attributes:
        certificate: PEM.
        private_key: PEM.
    """

    certificate: bytes
    private_key: bytes

    def __repr__(self) -> str:
        return "Certificate(***)"

    @staticmethod
    def make() -> Certificate:
        """A new certificate. It does not expire: a job may run for years.

        Raises:
            BadSetup: the package ``cryptography`` is not installed.
        """
        try:
            from cryptography import x509  # noqa: PLC0415 - few jobs need it
            from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
            from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
            from cryptography.x509.oid import NameOID  # noqa: PLC0415
        except ImportError as error:
            message = (
                "Spark's own traffic is encrypted, so the runner's is to be too, and the driver "
                "needs the package 'cryptography' to make a certificate. Install it in the "
                "driver's environment: pip install cryptography."
            )
            raise BadSetup(message) from error
        private = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sparkdrain")])
        utc = dt.timezone.utc
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(private.public_key())
            .serial_number(x509.random_serial_number())
            # The clocks of machines differ. The last moment means that there is none.
            .not_valid_before(dt.datetime(2000, 1, 1, tzinfo=utc))
            .not_valid_after(dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=utc))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .sign(private, hashes.SHA256())
        )
        return Certificate(
            certificate.public_bytes(serialization.Encoding.PEM),
            private.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )

    def wrap(self, connection: socket.socket, *, server: bool) -> EncryptedConnection:
        """Take over a connection, on which nothing is sent before ``handshake``."""
        wrapped = _context(self, server).wrap_socket(
            connection, server_side=server, do_handshake_on_connect=False
        )
        return EncryptedConnection(wrapped, ssl.PEM_cert_to_DER_cert(self.certificate.decode()))


@lru_cache(maxsize=8)
def _context(own: Certificate, server: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # the other end shows this very certificate, wherever it is
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=own.certificate.decode())
    with tempfile.NamedTemporaryFile() as file:  # for this user only; there is no other way in
        file.write(own.certificate + own.private_key)
        file.flush()
        context.load_cert_chain(file.name)
    if server:
        # A ticket would come when the client waits for no message.
        context.num_tickets = 0
    return context


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
