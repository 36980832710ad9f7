"""The client on confluent-kafka, which is librdkafka: C, with threads of its own."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from sparkdrain.errors import BadSetup
from sparkdrain.io.kafka.client import Client
from sparkdrain.io.kafka.confluent_catalog import ConfluentCatalog
from sparkdrain.io.kafka.confluent_records import ConfluentRecords
from sparkdrain.io.kafka.confluent_sink import ConfluentSink
from sparkdrain.io.kafka.confluent_transactions import ConfluentTransactions
from sparkdrain.io.kafka.settings import Settings, for_rdkafka

if TYPE_CHECKING:
    from sparkdrain.io.kafka.client import Partition, ServiceClock

# It insists on a group, even where none is used.
_NO_GROUP: Final = "sparkdrain-without-a-group"
_MOST_QUEUED: Final = 500_000


class ConfluentClient(Client):
    """Reaches brokers by confluent-kafka, a wrapper of librdkafka."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._servers = settings.servers
        self._config = for_rdkafka(dict(settings.config))

    @override
    def catalog(self) -> ConfluentCatalog:
        return ConfluentCatalog(self._servers, self._consumer_config())

    @override
    def records(self, *, headers: bool) -> ConfluentRecords:
        config = self._consumer_config()
        config.setdefault("fetch.queue.backoff.ms", 5)
        config.setdefault("fetch.wait.max.ms", 100)
        config.setdefault("queued.max.messages.kbytes", 32 << 10)
        return ConfluentRecords(self._servers, config, headers=headers)

    @override
    def clock(self) -> ServiceClock:
        if find_spec("kafka") is None:
            msg = (
                f"Kafka at {self._servers} does not tell its time to confluent-kafka: "
                "pip install kafka-python where the pipeline runs, which can ask for it"
            )
            raise BadSetup(msg)
        from sparkdrain.io.kafka.kafka_python_client import KafkaPythonClient  # noqa: PLC0415

        return KafkaPythonClient(self._settings).clock()

    @override
    def sink(self, *, tell: bool) -> ConfluentSink:
        config = {"bootstrap.servers": self._servers, **self._config}
        config.setdefault("acks", "all")
        config.setdefault("enable.idempotence", str(config["acks"]) in ("all", "-1"))
        config.setdefault("linger.ms", 20)
        config.setdefault("batch.size", 1 << 20)
        config.setdefault("queue.buffering.max.messages", _MOST_QUEUED)
        # As Kafka's own client and kafka-python choose partitions.
        config.setdefault("partitioner", "murmur2_random")
        return ConfluentSink(self._servers, config, tell=tell)

    @override
    def transactions(self, ident: str, mark: Partition) -> ConfluentTransactions:
        return ConfluentTransactions(self._servers, self._config, ident, mark)

    def _consumer_config(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self._servers,
            "group.id": _NO_GROUP,
            **self._config,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
        }
