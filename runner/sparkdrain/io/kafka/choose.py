"""Which client library is used, where the pipeline runs."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from sparkdrain.errors import BadSetup

if TYPE_CHECKING:
    from sparkdrain.io.kafka.client import Client
    from sparkdrain.io.kafka.settings import Settings


def open_client(settings: Settings) -> Client:
    """The client that the settings ask for, else the fastest that there is.

    Raises:
        BadSetup: it is not installed here.
    """
    wanted = settings.library
    if wanted in ("auto", "confluent-kafka") and find_spec("confluent_kafka") is not None:
        from sparkdrain.io.kafka.confluent_client import ConfluentClient  # noqa: PLC0415

        return ConfluentClient(settings)
    if wanted in ("auto", "kafka-python") and find_spec("kafka") is not None:
        from sparkdrain.io.kafka.kafka_python_client import KafkaPythonClient  # noqa: PLC0415

        return KafkaPythonClient(settings)
    name = "kafka-python" if wanted == "auto" else wanted
    extra = "kafka-fast" if name == "confluent-kafka" else "kafka"
    msg = (
        f"{name} is not installed where the pipeline runs: "
        f"pip install 'spark-drain-runner[{extra}]', there too"
    )
    raise BadSetup(msg)
