"""Which client library is used where the pipeline runs, and whether it takes the settings.

To check settings no client is made, and no broker is asked. What a machine has (files, plugins) is
not looked at either: the pipeline may be built on another one than it runs on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from sparkdrain import redaction
from sparkdrain.errors import BadOption, BadSetup
from sparkdrain.io.kafka.settings import (
    DECIDED,
    KAFKA_NAMES,
    PRODUCER,
    PROTOCOLS,
    for_kafka_python,
    for_rdkafka,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sparkdrain.io.kafka.client import Client
    from sparkdrain.io.kafka.settings import Settings

# librdkafka sets one property after the other, and makes a client when all are set. Where it
# refuses this one, it has taken all before, and makes none.
_LAST: Final = "sparkdrain.takes.no.more"
_UNKNOWN: Final = re.compile(r'No such configuration property: "(.*)"')
_WRONG: Final = re.compile(r"invalid value|outside allowed range", re.IGNORECASE)
# By name of kafka-python, which finds out late or never.
_ONE_OF: Final[Mapping[str, tuple[Any, ...]]] = {
    "security_protocol": PROTOCOLS,
    "sasl_mechanism": (
        "PLAIN",
        "GSSAPI",
        "OAUTHBEARER",
        "SCRAM-SHA-256",
        "SCRAM-SHA-512",
        "AWS_MSK_IAM",
    ),
    "isolation_level": ("read_uncommitted", "read_committed"),
    "compression_type": (None, "gzip", "snappy", "lz4", "zstd"),
    "acks": (0, 1, -1, "all"),
}


def open_client(settings: Settings) -> Client:
    """The client that the settings ask for, else the fastest that there is.

    Raises:
        BadSetup: it is not installed here.
        BadOption: it does not take the settings.
    """
    check(settings)
    wanted = settings.library
    library = _library_here(settings)
    if library == "confluent-kafka":
        from sparkdrain.io.kafka.confluent_client import ConfluentClient  # noqa: PLC0415

        return ConfluentClient(settings)
    if library == "kafka-python":
        from sparkdrain.io.kafka.kafka_python_client import KafkaPythonClient  # noqa: PLC0415

        return KafkaPythonClient(settings)
    name = "kafka-python" if wanted == "auto" else wanted
    extra = "kafka-fast" if name == "confluent-kafka" else "kafka"
    msg = (
        f"{name} is not installed where the pipeline runs: "
        f"pip install 'spark-drain-runner[{extra}]', there too"
    )
    raise BadSetup(msg)


@dataclass(frozen=True)
class KafkaService:
    """A ``LogService``: brokers, by their settings. It opens the client library."""

    settings: Settings

    def open_client(self) -> Client:
        """The client that the settings ask for, else the fastest that is installed."""
        return open_client(self.settings)


def check(settings: Settings) -> None:
    """Refuse settings that the client library does not take, if one is installed here.

    Raises:
        BadOption: names the setting.
    """
    if not settings.config:
        return
    library = _library_here(settings)
    if library == "confluent-kafka":
        _check_for_confluent(settings)
    elif library == "kafka-python":
        _check_for_kafka_python(settings)


def _library_here(settings: Settings) -> str | None:
    wanted = settings.library
    if wanted in ("auto", "confluent-kafka") and find_spec("confluent_kafka") is not None:
        return "confluent-kafka"
    if wanted in ("auto", "kafka-python") and find_spec("kafka") is not None:
        return "kafka-python"
    return None


def _check_for_confluent(settings: Settings) -> None:
    import confluent_kafka as ck  # noqa: PLC0415 - it may not be installed

    given = {
        theirs: name for name, value in settings.config for theirs in for_rdkafka({name: value})
    }
    config = {"group.id": "none", **for_rdkafka(dict(settings.config)), _LAST: ""}
    make = ck.Producer if settings.option == PRODUCER else ck.Consumer
    try:
        make(config)
    except ck.KafkaException as error:
        text = error.args[0].str().strip()
    except (TypeError, ValueError) as error:
        text = f"invalid value: {error}"
    unknown = _UNKNOWN.search(text)
    if unknown is None and _WRONG.search(text):
        msg = (
            f"{settings.option} has a setting that confluent-kafka does not take: "
            f"{redaction.redact(text)}. Correct the value, or leave the setting out"
        )
        raise BadOption(msg)
    if unknown is not None and unknown[1] != _LAST:
        name = given.get(unknown[1], unknown[1])
        raise _unknown(settings, "confluent-kafka", name, KAFKA_NAMES)


def _check_for_kafka_python(settings: Settings) -> None:
    from kafka import KafkaConsumer, KafkaProducer  # noqa: PLC0415 - it may not be installed

    make = KafkaProducer if settings.option == PRODUCER else KafkaConsumer
    known = make.DEFAULT_CONFIG
    for name, value in settings.config:
        ((theirs, given),) = for_kafka_python({name: value}).items()
        if theirs not in known:
            raise _unknown(settings, "kafka-python", name, _names_of(known))
        wanted = _wanted(theirs, given, known[theirs])
        if wanted:
            shown = redaction.redacted(value, name)
            msg = f"{settings.option} has {name!r}: {shown!r}; kafka-python wants {wanted}"
            raise BadOption(msg)


def _wanted(name: str, value: Any, default: Any) -> str:
    """What a value should be, if it is nothing of the kind."""
    if name in _ONE_OF:
        allowed = _ONE_OF[name]
        return "" if value in allowed else "one of " + ", ".join(map(str, allowed))
    if type(default) is bool:
        return "" if type(value) is bool else "True or False"
    is_number = isinstance(value, int | float) and type(value) is not bool
    return "a number" if isinstance(default, int | float) and not is_number else ""


def _names_of(known: Iterable[str]) -> set[str]:
    """Kafka's names of settings that kafka-python knows under its own."""
    theirs = {name: next(iter(for_kafka_python({name: None}))) for name in KAFKA_NAMES}
    rest = {name.replace("_", ".") for name in set(known) - set(theirs.values())}
    return {name for name, own in theirs.items() if own in known} | rest - DECIDED.keys()


def _unknown(settings: Settings, library: str, name: str, known: Iterable[str]) -> BadOption:
    near = get_close_matches(name.replace("_", "."), sorted(known), 1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    other = ", or name another client library with client=" if settings.library == "auto" else ""
    return BadOption(
        f"{settings.option} has {name!r}, which {library} does not know{hint} "
        f"Correct the name, or leave the setting out{other}"
    )
