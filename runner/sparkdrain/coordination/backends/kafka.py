"""A metadata store in a topic of Kafka, for all machines that reach its brokers."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import re
import secrets
import stat
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError, TopicAlreadyExistsError
from typing_extensions import override

from sparkdrain import redaction
from sparkdrain.coordination import backend
from sparkdrain.coordination.large_values import LargeValues
from sparkdrain.coordination.metadata import (
    ABSENT,
    ANY,
    Handle,
    Keys,
    MetadataStore,
    OnCorrupt,
    StoreDown,
    Versioned,
    fail,
    version_of,
)
from sparkdrain.coordination.timed_store import TimedStore
from sparkdrain.errors import BadSetup
from sparkdrain.io.kafka.errors import KafkaFailed
from sparkdrain.io.kafka.kafka_python_errors import Failures, made
from sparkdrain.io.kafka.settings import for_kafka_python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

CONFIG: Final = "SPARKDRAIN_KAFKA_CONFIG"
"""The environment variable with the path of a properties file, as Kafka's own tools take it."""

_ANSWER_SECONDS: Final = 20.0
_TRANSACTION_MILLIS: Final = 10_000
_OLDEST_VIEW: Final = 3600.0
"""Seconds after which a view is read anew; the topic keeps removals for much longer."""

_LIMIT: Final = 512 * 1024
"""Bytes of a record's value; brokers take 1 MiB by default (``message.max.bytes``)."""

_PLAINTEXT: Final = "PLAINTEXT"
_OTHERS: Final = stat.S_IRGRP | stat.S_IROTH

_WRITE: Final = "write"
"""The header with the random number of a write, which is the version of the record."""

_TOPIC: Final = {
    "cleanup.policy": "compact",
    "delete.retention.ms": str(7 * 24 * 3600 * 1000),
    # Small segments: the newest one is not compacted, and each start reads all of the topic.
    "segment.bytes": str(16 << 20),
    "segment.ms": str(3600 * 1000),
}
_PLACE: Final = re.compile(
    r"(?P<servers>[^/@,\s]+:\d+(,[^/@,\s]+:\d+)*)/(?P<topic>[a-zA-Z0-9._-]{1,249})"
)


def _is_not_of_a_fence(told: logging.LogRecord) -> bool:
    # Writers of a store fence each other all the time, and the client raises what it logs.
    text = told.getMessage()
    return "ProducerFencedError" not in text and "InvalidProducerEpochError" not in text


for _name in ("sender", "transaction_manager"):
    logging.getLogger(f"kafka.producer.{_name}").addFilter(_is_not_of_a_fence)


class Backend(backend.Backend):
    """See ``coordination.backend.Backend``. A place is brokers with ports, and a topic."""

    @override
    def place(self, text: str) -> str:
        found = _PLACE.fullmatch(text.removeprefix("//"))
        if found is None or found["topic"] in {".", ".."}:
            message = (
                "it does not name brokers and a topic. Give HOST:PORT/TOPIC, with more brokers "
                f"behind commas; settings belong into a file that {CONFIG} names."
            )
            raise ValueError(message)
        return found[0]

    @override
    def prepare(self, place: str, *, group: bool) -> list[str]:
        found = []
        if client_settings(os.environ).get("security_protocol", _PLAINTEXT) == _PLAINTEXT:
            found.append(
                f"Everybody who reaches Kafka at {place} may read and change the records there, "
                f"and drain the job, unless the network keeps strangers away: {CONFIG} names no "
                "security.protocol."
            )
        if (path := os.environ.get(CONFIG)) and os.stat(path).st_mode & _OTHERS:
            found.append(f"Other users may read {path}, which {CONFIG} names: chmod 600 {path}")
        return found

    @override
    def open(self, place: str) -> MetadataStore:
        store = LargeValues(KafkaStore(place, client_settings(os.environ)), _LIMIT)
        return TimedStore(store, f"kafka:{place}", _ANSWER_SECONDS)


def client_settings(environ: Mapping[str, str]) -> dict[str, Any]:
    """Settings for all clients, under the names of kafka-python.

    Raises:
        BadSetup: the file cannot be read, or a line of it sets nothing.
    """
    path = environ.get(CONFIG, "")
    if not path:
        return {}
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        message = f"{CONFIG} names {path!r}, which cannot be read: {type(error).__name__}."
        raise BadSetup(message) from error
    settings = {}
    for number, line in enumerate(lines, 1):
        name, equals, value = line.partition("=")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not equals:
            message = f"Line {number} of {path} is no setting: it needs name=value."
            raise BadSetup(message)
        settings[name.strip()] = value.strip()
    redaction.remember(settings)
    return for_kafka_python(settings)


class KafkaStore(MetadataStore):
    """See ``MetadataStore``; a value has at most ``_LIMIT`` bytes.

    The topic has one partition and is compacted: the newest record of a key is the record. Each
    handle reads the topic into memory, and reads on to its end before it answers. A writer
    fences all others, by a transactional id that all handles on a topic share: a transaction that
    is committed began after the writer had read all that was committed before. So a write whose
    version was wrong is never in the topic, and compaction keeps no such write.
    """

    def __init__(
        self, place: str, config: Mapping[str, Any], seconds: float = _ANSWER_SECONDS
    ) -> None:
        """Connect, make the topic if it is not there, and read it.

        Args:
            place: as ``Backend.place`` gives it.
            config: settings of the clients, under kafka-python's names.
            seconds: how long one call may try.

        Raises:
            BadSetup: no broker answers, the topic is for something else, or must not be used.
        """
        self._handle = Handle(f"The metadata store kafka:{place}")
        self._servers, _, topic = place.partition("/")
        self._partition = TopicPartition(topic, 0)
        self._seconds = seconds
        self._config = {
            "bootstrap_timeout_ms": int(seconds * 500),
            "request_timeout_ms": int(seconds * 500),
            "reconnect_backoff_max_ms": 500,
            **config,
            "bootstrap_servers": self._servers.split(","),
        }
        self._lock = threading.Lock()
        self._view: dict[tuple[str, str], Versioned] = {}
        self._reads_anew_at = 0.0
        self._awaited, self._was_read = "", False
        self._producer: Any = None
        self._ends: Any = None
        self._consumer: Any = None
        try:
            with self._telling(), Failures(self._servers):
                self._make_topic(topic)
                reading = {"group_id": None, "enable_auto_commit": False}
                self._ends = self._client(KafkaConsumer, **reading)
                self._consumer = self._client(
                    KafkaConsumer,
                    **reading,
                    isolation_level="read_committed",
                    fetch_max_wait_ms=20,
                )
                self._consumer.assign([self._partition])
                self._read_on()
        except BaseException as error:
            self._stop()
            if isinstance(error, StoreDown):
                raise BadSetup(str(error)) from error
            raise

    @override
    def get(self, namespace: str, key: str) -> Versioned | None:
        with self._at_end(namespace, key):
            return self._view.get((namespace, key))

    @override
    def put(self, namespace: str, key: str, value: bytes, version: str = ANY) -> str | None:
        return self._write(namespace, key, bytes(value), version)

    @override
    def remove(self, namespace: str, key: str, version: str = ANY) -> bool:
        if version in {ANY, ABSENT} and self.get(namespace, key) is None:
            return True
        if version == ABSENT:
            return False
        return self._write(namespace, key, None, version) is not None

    @override
    def all(
        self, namespace: str, on_corrupt: OnCorrupt = fail, without: Keys = (), prefix: str = ""
    ) -> dict[str, Versioned]:
        with self._at_end(namespace):
            return {
                key: found
                for (space, key), found in self._view.items()
                if space == namespace and key.startswith(prefix) and key not in without
            }

    @override
    def close(self) -> None:
        if self._handle.close():
            with self._lock:
                self._stop()

    def _write(self, namespace: str, key: str, value: bytes | None, version: str) -> str | None:
        self._handle.check(namespace, key)
        write = secrets.token_hex(16)
        end = time.monotonic() + self._seconds
        with self._lock, self._telling(), Failures(self._servers):
            self._awaited, self._was_read = write, False
            is_at_end = False
            while True:
                if self._producer is None:
                    self._fence()
                    self._read_on()
                    is_at_end = True
                    if self._was_read:  # the answer to the commit was lost
                        return write
                if version not in (ANY, version_of(self._view.get((namespace, key)))):
                    if is_at_end:
                        return None
                    self._read_on()
                    is_at_end = True
                    continue
                try:
                    self._commit(namespace, key, value, write)
                except KafkaError:
                    # Another writer has fenced this one, or a broker has failed.
                    self._drop_producer()
                    if time.monotonic() > end:
                        raise
                    time.sleep(random.uniform(0.01, 0.1))  # noqa: S311 - against writers in step
                    continue
                self._see(namespace, key, value, write)
                return write

    def _fence(self) -> None:
        """Be the only writer: what others have begun is aborted, and they hear of it."""
        self._producer = self._client(
            KafkaProducer,
            transactional_id=f"sparkdrain-{self._partition.topic}",
            transaction_timeout_ms=_TRANSACTION_MILLIS,
            acks="all",
            linger_ms=0,
            max_block_ms=int(self._seconds * 500),
        )
        try:
            self._producer.init_transactions()
        except KafkaError:
            self._drop_producer()
            raise

    def _commit(self, namespace: str, key: str, value: bytes | None, write: str) -> None:
        self._producer.begin_transaction()
        sent = self._producer.send(
            self._partition.topic,
            value,
            f"{namespace}\x00{key}".encode(),
            [(_WRITE, write.encode())],
            0,
        )
        self._producer.commit_transaction()
        sent.get(self._seconds)

    def _read_on(self) -> None:
        """Read what was committed before this call."""
        try:
            self._read_to_end()
        except BaseException:
            # A view that is not at the end may show less than this writer has written itself.
            self._drop_producer()
            raise

    def _read_to_end(self) -> None:
        now = time.monotonic()
        if now >= self._reads_anew_at:
            self._view.clear()
            self._consumer.seek_to_beginning(self._partition)
        limit = int(self._seconds * 1000)
        end = self._ends.end_offsets([self._partition], timeout_ms=limit)[self._partition]
        # A transaction that is open holds readers up until it ends, or another fences its writer.
        while self._consumer.position(self._partition, timeout_ms=limit) < end:
            for records in self._consumer.poll(timeout_ms=50).values():
                for record in records:
                    self._take(record)
            if time.monotonic() - now > self._seconds:
                message = (
                    f"{self._handle.store} cannot be read to its end within {self._seconds:g} s."
                )
                raise StoreDown(message)
        self._reads_anew_at = now + _OLDEST_VIEW

    def _take(self, record: Any) -> None:
        write = dict(record.headers).get(_WRITE)
        if record.key is None or write is None:
            return  # none of this class's
        namespace, _, key = record.key.decode().partition("\x00")
        self._see(namespace, key, record.value, write.decode())
        self._was_read = self._was_read or write.decode() == self._awaited

    def _see(self, namespace: str, key: str, value: bytes | None, write: str) -> None:
        """Take the newest write of a key, which has removed the record if there is no value."""
        if value is None:
            self._view.pop((namespace, key), None)
        else:
            self._view[namespace, key] = Versioned(value, write)

    def _make_topic(self, topic: str) -> None:
        admin = self._client(KafkaAdminClient)
        try:
            with contextlib.suppress(TopicAlreadyExistsError):
                made = {"num_partitions": 1, "replication_factor": -1, "configs": _TOPIC}
                admin.create_topics({topic: made}, wait_for_metadata=True)
                return
            (about,) = admin.describe_topics([topic])
            partitions = len(about["partitions"])
            asked = ConfigResource(ConfigResourceType.TOPIC, topic)
            told = admin.describe_configs([asked], config_filter="all")
            policy = told["topic"][topic]["cleanup.policy"]["value"]
        finally:
            admin.close()
        if partitions != 1 or policy != "compact":
            message = (
                f"The topic {topic!r} of Kafka at {self._servers} is no metadata store: it has "
                f"{partitions} partitions and cleanup.policy={policy}, instead of 1 and compact. "
                "Name another topic; it is made if it is not there."
            )
            raise BadSetup(message)

    def _client(self, make: Callable[..., Any], **more: Any) -> Any:
        return made(self._servers, make, {**self._config, **more})

    @contextlib.contextmanager
    def _at_end(self, namespace: str, key: str | None = None) -> Iterator[None]:
        self._handle.check(namespace, key)
        with self._lock, self._telling(), Failures(self._servers):
            self._read_on()
            yield

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except KafkaFailed as error:
            message = (
                f"{self._handle.store} cannot be used now; what was asked may or may not have been "
                f"done. {error}. See that the brokers run, and that {CONFIG} names a user who may "
                "read and write the topic, and its transactional id."
            )
            raise StoreDown(message) from error

    def _drop_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(KafkaError):
                producer.close(timeout=0)

    def _stop(self) -> None:
        self._drop_producer()
        for consumer in (self._consumer, self._ends):
            if consumer is not None:
                with contextlib.suppress(KafkaError):
                    consumer.close(autocommit=False)
