"""How a client reaches a Job service: TLS, a certificate of its own, a token."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
from typing_extensions import override

from sparkdrain import redaction
from sparkdrain.errors import BadOption
from sparkdrain.jobs.server import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Mapping

FLAGS = {
    "job_tls_ca": "PEM file with the authority of the service's certificate; the service has TLS",
    "job_tls_cert": "PEM file with the client's own certificate",
    "job_tls_key": "PEM file with the private key of that certificate",
    "job_token_file": "file whose first line is the token that the service asks for",
}
"""The options of clients, and what each takes."""


@dataclass(frozen=True, slots=True)
class Access:
    """What a client shows to a Job service, and what it asks of the service.

    Attributes:
        authority: who signs the service's certificate, PEM; empty: no TLS.
        certificate: the client's certificate, PEM; empty: none.
        private_key: the key of the client's certificate, PEM.
        token: for the service; empty: none.
    """

    authority: bytes = b""
    certificate: bytes = b""
    private_key: bytes = field(default=b"", repr=False)
    token: str = field(default="", repr=False)

    @classmethod
    def read(cls, given: Mapping[str, str | None]) -> Access:
        """Read the files that the options of ``FLAGS`` name.

        Raises:
            BadOption: a file cannot be read, or one option lacks another.
        """
        files = {flag: given.get(flag) or "" for flag in FLAGS}
        if bool(files["job_tls_cert"]) != bool(files["job_tls_key"]):
            message = "--job_tls_cert and --job_tls_key go together: give both, or neither."
            raise BadOption(message)
        if files["job_tls_cert"] and not files["job_tls_ca"]:
            message = "--job_tls_cert needs TLS: give --job_tls_ca, too."
            raise BadOption(message)
        authority, certificate, key, token = (
            read_file(f"--{flag}", file) for flag, file in files.items()
        )
        text = (token.decode(errors="replace").splitlines() or [""])[0].strip()
        redaction.remember({"token": text})
        return cls(authority, certificate, key, text)

    def channel(self, endpoint: str) -> grpc.Channel:
        """A channel to the service, or to its artifacts."""
        if self.authority:
            credentials = grpc.ssl_channel_credentials(
                self.authority, self.private_key or None, self.certificate or None
            )
            channel = grpc.secure_channel(endpoint, credentials, options=UNLIMITED)
        else:
            channel = grpc.insecure_channel(endpoint, options=UNLIMITED)
        return grpc.intercept_channel(channel, _ShowToken(self.token)) if self.token else channel


def read_file(flag: str, file: str) -> bytes:
    """The content of a file that an option names; nothing if it names none.

    Raises:
        BadOption: the file cannot be read.
    """
    if not file:
        return b""
    try:
        return Path(file).read_bytes()
    except OSError as error:
        message = f"{flag}={file} cannot be read: {error.strerror}."
        raise BadOption(message) from error


class _Call(NamedTuple):
    method: str
    timeout: float | None
    metadata: tuple[tuple[str, str], ...]
    credentials: Any
    wait_for_ready: bool | None
    compression: Any


class _Details(_Call, grpc.ClientCallDetails):
    """What gRPC is told of a call."""


class _ShowToken(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamUnaryClientInterceptor,
    grpc.StreamStreamClientInterceptor,
):
    """Adds the token to every call."""

    def __init__(self, token: str) -> None:
        self._header = ("authorization", f"Bearer {token}")

    @override
    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        with_token = _Details(
            details.method,
            details.timeout,
            (*(details.metadata or ()), self._header),
            details.credentials,
            details.wait_for_ready,
            details.compression,
        )
        return continuation(with_token, request)

    intercept_unary_stream = intercept_stream_unary = intercept_unary_unary
    intercept_stream_stream = intercept_unary_unary
