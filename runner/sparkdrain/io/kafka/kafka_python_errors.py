"""What kafka-python says of failures, in our words."""

from __future__ import annotations

import logging
import time
from typing import Final

from kafka import errors as kafka_errors

from sparkdrain.io.kafka.errors import (
    KafkaDataLost,
    KafkaFailed,
    KafkaRefused,
    KafkaUnreachable,
)
from sparkdrain.io.kafka.quiet_log import OncePerMinute

# How long a question may take; a broker that restarts is back by then. Milliseconds.
PATIENCE: Final = 60_000
_REFUSALS: Final = (
    kafka_errors.AuthorizationError,
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
    kafka_errors.UnknownTopicOrPartitionError,
)
for _name in ("cluster", "consumer.fetcher", "net.connection", "net.manager", "net.selector"):
    logging.getLogger(f"kafka.{_name}").addFilter(OncePerMinute(time.monotonic))


class Failures:
    """Makes errors of the library our own.

    Args:
        servers: to name.
        kind: of errors that are neither refusals nor a matter of time.
    """

    def __init__(self, servers: str, kind: type[KafkaFailed] = KafkaFailed) -> None:
        self._servers = servers
        self._kind = kind

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raises ours instead of the library's."""
        if not isinstance(error, kafka_errors.KafkaError):
            return
        text = f"Kafka at {self._servers}: {error!r}"
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
        raise self._kind(text) from error
