"""Which client library is used, where the pipeline runs."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from sparkdrain.errors import BadSetup
from sparkdrain.io.kafka.setting_check import check_for_confluent, check_for_kafka_python

if TYPE_CHECKING:
    from sparkdrain.io.kafka.client import Client
    from sparkdrain.io.kafka.settings import Settings


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
        check_for_confluent(settings)
    elif library == "kafka-python":
        check_for_kafka_python(settings)


def _library_here(settings: Settings) -> str | None:
    wanted = settings.library
    if wanted in ("auto", "confluent-kafka") and find_spec("confluent_kafka") is not None:
        return "confluent-kafka"
    if wanted in ("auto", "kafka-python") and find_spec("kafka") is not None:
        return "kafka-python"
    return None
