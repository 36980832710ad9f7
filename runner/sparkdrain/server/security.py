"""Who may reach a server: TLS, certificates of clients, a token."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import grpc
from typing_extensions import override

from sparkdrain import redaction
from sparkdrain.errors import BadOption
from sparkdrain.jobs.access import read_file
from sparkdrain.peers import is_loopback
from sparkdrain.strangers import OpenCalls, refusing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SHORTEST_TOKEN: Final = 16
_HEADER: Final = "authorization"
_REFUSING: Final = refusing(
    grpc.StatusCode.UNAUTHENTICATED,
    "This server asks for a token: send the metadata 'authorization: Bearer TOKEN' "
    "(SparkDrainRunner: --job_token_file).",
)
PROBE: Final = "/grpc.health.v1.Health/Check"
"""The call that everybody may make."""


@dataclass(frozen=True, slots=True)
class Security:
    """What a server shows to clients, and asks of them.

    Attributes:
        certificate: chain of the server, PEM; empty: no TLS.
        private_key: the certificate's key, PEM.
        client_authority: who signs certificates of clients, PEM; empty: clients need none.
        token: what clients must show; empty: nothing.
    """

    certificate: bytes = b""
    private_key: bytes = field(default=b"", repr=False)
    client_authority: bytes = b""
    token: str = field(default="", repr=False)

    @property
    def asks_clients(self) -> bool:
        """Whether clients have to show anything."""
        return bool(self.client_authority or self.token)

    def credentials(self) -> grpc.ServerCredentials | None:
        """The certificates that gRPC shows and asks for; None without TLS."""
        if not self.certificate:
            return None
        return grpc.ssl_server_credentials(
            [(self.private_key, self.certificate)],
            root_certificates=self.client_authority or None,
            require_client_auth=bool(self.client_authority),
        )

    def interceptors(self) -> tuple[grpc.ServerInterceptor, ...]:
        """The check of the token before each call; empty if clients need no token."""
        return (_AskForToken(self.token),) if self.token else ()

    def warnings(self, host: str) -> Iterator[str]:
        """What a user should know of this way to be reached at ``host``."""
        if is_loopback(host):
            return
        if not self.asks_clients:
            yield (
                f"A program that reaches {host} can run code as this user: clients show neither a "
                "certificate (--tls-client-ca) nor a token (--token-file)."
            )
        if not self.certificate:
            yield (
                f"Without TLS (--tls-cert), others on the network of {host} can read pipelines, "
                "files and the token."
            )


def read_security(
    certificate: str = "", private_key: str = "", client_authority: str = "", token: str = ""
) -> Security:
    """Read what the options name.

    Args:
        certificate: a file, PEM; empty: none, also of the others.
        private_key: likewise.
        client_authority: likewise.
        token: a file whose first line is the token.

    Raises:
        BadOption: a file cannot be read, or one option lacks another.
    """
    if bool(certificate) != bool(private_key):
        message = "--tls-cert and --tls-key go together: give both, or neither."
        raise BadOption(message)
    if client_authority and not certificate:
        message = "--tls-client-ca needs TLS: give --tls-cert and --tls-key, too."
        raise BadOption(message)
    return Security(
        read_file("--tls-cert", certificate),
        read_file("--tls-key", private_key),
        read_file("--tls-client-ca", client_authority),
        read_token("--token-file", token),
    )


def read_token(flag: str, file: str) -> str:
    """The first line of a file; empty if no file is named.

    Raises:
        BadOption: the file cannot be read, or holds no good token.
    """
    if not file:
        return ""
    token = (read_file(flag, file).decode(errors="replace").splitlines() or [""])[0].strip()
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or " " in token:
        message = (
            f"{flag}={file}: the first line is no good token. It needs {_SHORTEST_TOKEN} or more "
            "characters of ASCII without a space; for instance: openssl rand -hex 32."
        )
        raise BadOption(message)
    redaction.remember({"token": token})
    return token


def check_exposure(host: str, security: Security, *, is_asked_for: bool) -> None:
    """Return if a server may listen at an address.

    Args:
        host: the address.
        security: what clients must have.
        is_asked_for: whether the user says that nothing is needed.

    Raises:
        BadOption: other machines could run code as this user.
    """
    if not is_loopback(host) and not security.asks_clients and not is_asked_for:
        message = (
            f"--host={host}: other machines could run code as this user. Give --token-file, best "
            "with --tls-cert and --tls-key, or these two with --tls-client-ca for certificates of "
            "clients; or say --insecure if something else keeps strangers away."
        )
        raise BadOption(message)


class _AskForToken(grpc.ServerInterceptor):
    """Lets no call in that does not show the token, except for probes of health."""

    def __init__(self, token: str) -> None:
        self._wanted = f"Bearer {token}".encode()
        self._probes = OpenCalls()

    @override
    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        for key, value in details.invocation_metadata:
            if key == _HEADER and hmac.compare_digest(str(value).encode(), self._wanted):
                return continuation(details)
        handler = continuation(details)
        if handler is None:
            return None
        return self._probes.handler(handler) if details.method == PROBE else _REFUSING
