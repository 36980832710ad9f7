"""What kafka-python says of failures, in our words."""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafka import errors as kafka_errors

from sparkdrain import redaction
from sparkdrain.io.kafka.errors import KafkaDataLost, KafkaFailed, KafkaRefused, KafkaUnreachable
from sparkdrain.io.kafka.quiet_log import OncePerMinute

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# How long a question may take; a broker that restarts is back by then. Milliseconds.
PATIENCE: Final = 60_000
_REFUSALS: Final = (
    kafka_errors.AuthorizationError,
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
    kafka_errors.UnknownTopicOrPartitionError,
    kafka_errors.KafkaConfigurationError,
)
for _name in ("cluster", "consumer.fetcher", "net.connection", "net.manager", "net.selector"):
    logging.getLogger(f"kafka.{_name}").addFilter(OncePerMinute())


def made(servers: str, make: Callable[..., Any], config: Mapping[str, Any]) -> Any:
    """A client of the library, which is told of those settings that it knows.

    Raises:
        KafkaRefused: it cannot be made with these settings, and will not be another time.
        KafkaUnreachable: no broker answers.
    """
    known = make.DEFAULT_CONFIG  # type: ignore[attr-defined] # of all of the library's clients
    try:
        _try_certificates(config)
        with Failures(servers):
            return make(**{name: value for name, value in config.items() if name in known})
    except (TypeError, ValueError, AssertionError) as error:
        reason = redaction.redact(repr(error))
        text = f"Kafka at {servers}: kafka-python cannot be used with these settings: {reason}"
        raise KafkaRefused(text) from error


def _try_certificates(config: Mapping[str, Any]) -> None:
    """Load what a connection would load: kafka-python does not report files that it cannot read.

    Raises:
        ValueError: names the setting, and the reason.
    """
    if "SSL" not in str(config.get("security_protocol")) or config.get("ssl_context"):
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    key = config.get("ssl_keyfile")
    # An empty password: without any, Python would ask for it at the terminal.
    password = config.get("ssl_password") or ""
    loads: tuple[tuple[str, str, Callable[[str], None]], ...] = (
        ("ssl.ca.location", "ssl_cafile", context.load_verify_locations),
        (
            "ssl.certificate.location",
            "ssl_certfile",
            lambda file: context.load_cert_chain(file, key, password),
        ),
        ("ssl.crl.location", "ssl_crlfile", context.load_verify_locations),
    )
    for name, theirs, load in loads:
        file = config.get(theirs)
        try:
            if file:
                load(file)
        except OSError as error:
            msg = f"{name} is {file!r}, which cannot be loaded here: {error}"
            raise ValueError(msg) from error


@dataclass(slots=True)
class Failures:
    """Makes errors of the library our own.

    Attributes:
        servers: to name.
        kind: the class of errors that are neither refusals nor a matter of time.
    """

    servers: str
    kind: type[KafkaFailed] = KafkaFailed

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raises ours instead of the library's."""
        if not isinstance(error, kafka_errors.KafkaError):
            return
        text = f"Kafka at {self.servers}: {error!r}"
        lost = (kafka_errors.OffsetOutOfRangeError, kafka_errors.NoOffsetForPartitionError)
        if isinstance(error, lost):
            raise KafkaDataLost(text) from error
        if isinstance(error, _REFUSALS):
            raise KafkaRefused(text) from error
        if isinstance(error, kafka_errors.KafkaTimeoutError):
            text += "; no answer in time, or a password that is refused: brokers do not tell which"
            raise KafkaUnreachable(text) from error
        if isinstance(error, kafka_errors.RetriableError):
            raise KafkaUnreachable(text) from error
        raise self.kind(text) from error
