"""Settings of Kafka clients, whose names differ from library to library.

A user may write them as Kafka's own documentation does (``security.protocol``), or with
underscores; each client is given its own names. What is not known here is passed on as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from sparkdrain import redaction
from sparkdrain.errors import BadOption

if TYPE_CHECKING:
    from collections.abc import Mapping

CONSUMER: Final = "consumer_config"
PRODUCER: Final = "producer_config"
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
Library = Literal["auto", "kafka-python", "confluent-kafka"]
LIBRARIES: Final[tuple[Library, ...]] = ("auto", "kafka-python", "confluent-kafka")

# Kafka's name, kafka-python's, librdkafka's; for those that are not the same but for the dots.
_NAMES: Final = (
    ("sasl.username", "sasl_plain_username", "sasl.username"),
    ("sasl.password", "sasl_plain_password", "sasl.password"),
    ("sasl.mechanism", "sasl_mechanism", "sasl.mechanism"),
    ("sasl.mechanisms", "sasl_mechanism", "sasl.mechanism"),
    ("ssl.ca.location", "ssl_cafile", "ssl.ca.location"),
    ("ssl.certificate.location", "ssl_certfile", "ssl.certificate.location"),
    ("ssl.key.location", "ssl_keyfile", "ssl.key.location"),
    ("ssl.key.password", "ssl_password", "ssl.key.password"),
    ("ssl.crl.location", "ssl_crlfile", "ssl.crl.location"),
    ("ssl.cipher.suites", "ssl_ciphers", "ssl.cipher.suites"),
    ("fetch.max.wait.ms", "fetch_max_wait_ms", "fetch.wait.max.ms"),
    ("fetch.wait.max.ms", "fetch_max_wait_ms", "fetch.wait.max.ms"),
    ("max.partition.fetch.bytes", "max_partition_fetch_bytes", "max.partition.fetch.bytes"),
    ("compression.type", "compression_type", "compression.type"),
    ("delivery.timeout.ms", "delivery_timeout_ms", "delivery.timeout.ms"),
    ("enable.idempotence", "enable_idempotence", "enable.idempotence"),
    ("max.request.size", "max_request_size", "message.max.bytes"),
    ("message.max.bytes", "max_request_size", "message.max.bytes"),
    ("check.crcs", "check_crcs", "check.crcs"),
)
_TO_PYTHON: Final = {name: python for name, python, _ in _NAMES}
_TO_RDKAFKA: Final = {name: rdkafka for name, _, rdkafka in _NAMES}
_FROM_PYTHON: Final = {python: rdkafka for _, python, rdkafka in _NAMES}
KAFKA_NAMES: Final = frozenset(
    {
        *_TO_PYTHON,
        "acks",
        "allow.auto.create.topics",
        "batch.size",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "connections.max.idle.ms",
        "fetch.max.bytes",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "isolation.level",
        "linger.ms",
        "metadata.max.age.ms",
        "receive.message.max.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retries",
        "retry.backoff.ms",
        "security.protocol",
        "transaction.timeout.ms",
    }
)
"""Names of settings that are often used, under Kafka's own names."""
_NO_RDKAFKA: Final = ("sasl_oauth_token_provider", "ssl_context", "api_version")

# What the transforms decide themselves.
DECIDED: Final = {
    "bootstrap.servers": "it is an argument of its own",
    "enable.auto.commit": "offsets are committed with checkpoints: commit_offsets=True",
    "auto.offset.reset": "say where to start with start=, and what becomes of gaps with on_lost=",
    "key.deserializer": "pass key_coder=",
    "value.deserializer": "pass value_coder=",
    "key.serializer": "pass key_coder=",
    "value.serializer": "pass value_coder=",
    "transactional.id": "records are written outside of transactions",
}


@dataclass(frozen=True)
class Settings:
    """How brokers are reached, and by which library.

    Attributes:
        servers: ``host:port``, separated by commas.
        config: sorted pairs of what the user has set.
        library: which client to use; ``auto`` is the fastest that is installed.
        option: the argument that the user has set them by, for messages: ``CONSUMER`` or
            ``PRODUCER``.
    """

    servers: str
    config: tuple[tuple[str, Any], ...] = ()
    library: Library = "auto"
    option: str = CONSUMER

    def __post_init__(self) -> None:
        redaction.remember(self.config)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        redaction.remember(self.config)

    def __repr__(self) -> str:
        return redaction.representation(self)

    @property
    def group(self) -> str | None:
        """The consumer group whose offsets are read and committed, if there is one."""
        given = dict(self.config)
        return given.get("group.id", given.get("group_id"))


def settings(
    servers: str | list[str] | tuple[str, ...],
    config: Mapping[str, Any] | None,
    library: str,
    option: str,
) -> Settings:
    """Settings as a user gave them.

    Raises:
        BadOption: no servers, no such port, no such library, or a setting that is decided
            elsewhere.
    """
    joined = servers if isinstance(servers, str) else ",".join(servers)
    if not joined.strip():
        msg = "bootstrap_servers is empty: name at least one broker as host:port"
        raise BadOption(msg)
    for server in joined.split(","):
        _check_port(server.strip())
    if library not in LIBRARIES:
        msg = f"client={library!r} is none of {', '.join(map(repr, LIBRARIES))}"
        raise BadOption(msg)
    for name in config or ():
        reason = DECIDED.get(name.replace("_", "."))
        if reason is not None:
            msg = f"{option} must not set {name!r}: {reason}"
            raise BadOption(msg)
        try:
            hash((config or {})[name])
        except TypeError:
            redaction.remember(config)
            value = redaction.redacted((config or {})[name], name)
            msg = f"{option} has {name!r}: {value!r}; settings are text, numbers or functions"
            raise BadOption(msg) from None
    pairs = tuple(sorted((config or {}).items(), key=lambda pair: pair[0]))
    return Settings(joined, pairs, library, option)


def _check_port(server: str) -> None:
    _, colon, port = server.rpartition(":")
    if not colon or server.endswith("]"):
        return  # the usual port
    if not (port.isdecimal() and 0 < int(port) < 1 << 16):
        msg = (
            f"bootstrap_servers has {server!r}, and {port!r} is no port: name brokers as "
            "host:port, with a port from 1 to 65535"
        )
        raise BadOption(msg)


def for_kafka_python(config: Mapping[str, Any]) -> dict[str, Any]:
    """The same settings under kafka-python's names."""
    found = {_TO_PYTHON.get(name, name.replace(".", "_")): value for name, value in config.items()}
    if found.get("compression_type") == "none":
        found["compression_type"] = None
    protocol = str(found.get("security_protocol")).upper()
    if protocol in PROTOCOLS:
        found["security_protocol"] = protocol
    return found


def for_rdkafka(config: Mapping[str, Any]) -> dict[str, Any]:
    """The same settings under librdkafka's names.

    Raises:
        BadOption: a setting of kafka-python that librdkafka has not.
    """
    found = {}
    for name, value in config.items():
        if name in _NO_RDKAFKA:
            msg = f"{name!r} is known to kafka-python alone: pass client='kafka-python'"
            raise BadOption(msg)
        if name in _FROM_PYTHON:
            found[_FROM_PYTHON[name]] = value
        else:
            dotted = name if "." in name else name.replace("_", ".")
            found[_TO_RDKAFKA.get(dotted, dotted)] = value
    return found
