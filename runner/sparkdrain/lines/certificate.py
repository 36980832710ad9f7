"""The certificate of a job, which both ends of an encrypted line show."""

from __future__ import annotations

import datetime as dt
import functools
import ssl
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkdrain.errors import BadSetup
from sparkdrain.lines.encrypted import EncryptedConnection

if TYPE_CHECKING:
    import socket


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


@functools.lru_cache(maxsize=8)
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
