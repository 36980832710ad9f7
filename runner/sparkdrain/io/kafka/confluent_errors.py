"""What librdkafka says of failures, in our words."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from sparkdrain import redaction
from sparkdrain.io.kafka.errors import KafkaFailed, KafkaRefused, KafkaUnreachable
from sparkdrain.io.kafka.quiet_log import OncePerMinute

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LOGGER: Final = logging.getLogger("sparkdrain.io.kafka.librdkafka")
LOGGER.addFilter(OncePerMinute())

REFUSALS: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001 - librdkafka's own errors are called so
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    }
)
LOST: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})  # noqa: SLF001

_DISCONNECTED: Final = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})  # noqa: SLF001


class Problems:
    """Hears of errors that belong to no call."""

    def __init__(self) -> None:
        self.refusal: KafkaError | None = None
        """The last one that says that a broker will not have us."""
        self.disconnected = False
        """Whether a broker was lost, be it back or not."""

    def __call__(self, error: KafkaError) -> None:
        """Another one."""
        self.disconnected |= error.code() in _DISCONNECTED
        if error.code() in REFUSALS:
            self.refusal = error

    def check(self, servers: str) -> None:
        """Raises `KafkaRefused`, once for each time that a broker has refused."""
        refusal, self.refusal = self.refusal, None
        if refusal is not None:
            raise failure(servers, refusal)


def made(servers: str, make: Callable[..., Any], config: Mapping[str, Any]) -> Any:
    """A client of the library.

    Raises:
        KafkaRefused: it cannot be made with these settings, and will not be another time.
    """
    try:
        return make(config, logger=LOGGER)
    except (KafkaException, TypeError, ValueError) as error:
        cause = error.args[0] if error.args else error
        if isinstance(cause, KafkaError) and cause.code() != KafkaError._INVALID_ARG:  # noqa: SLF001
            raise failure(servers, cause) from error
        reason = cause.str() if isinstance(cause, KafkaError) else str(cause)
        text = (
            f"Kafka at {servers}: confluent-kafka cannot be used with these settings: "
            f"{redaction.redact(reason)}"
        )
        raise KafkaRefused(text) from error


def may_pass(error: KafkaError) -> bool:
    """Whether the client goes on by itself, as when a broker restarts."""
    return bool(error.retriable()) or error.code() in (
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._MAX_POLL_EXCEEDED,  # noqa: SLF001
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    )


def failure(servers: str, error: KafkaError, where: str = "") -> KafkaFailed:
    """What to raise for an error of the library."""
    text = f"{where}Kafka at {servers}: {error.str()} ({error.name()})"
    if error.code() in REFUSALS:
        return KafkaRefused(text)
    return KafkaUnreachable(text) if may_pass(error) else KafkaFailed(text)
