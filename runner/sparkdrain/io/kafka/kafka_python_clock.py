"""Asks Kafka what time it is, by kafka-python: no other library has the request."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from kafka import KafkaAdminClient, TopicPartition
from kafka import errors as kafka_errors
from kafka.protocol.admin import DescribeQuorumRequest
from kafka.protocol.consumer import OffsetSpec
from typing_extensions import override

from sparkdrain.io.kafka.client import ServiceClock, ServiceTime
from sparkdrain.io.kafka.kafka_python_errors import Failures, made

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_METADATA: Final = "__cluster_metadata"
# How long no broker may answer before the clock cannot be opened, in milliseconds.
_PATIENCE: Final = 10_000
# Seconds after which brokers that do not tell their time are asked for it again.
_RARELY: Final = 600.0
# Kafka has a question for the newest record since 3.0. Before, it is asked for a record that is at
# most so many seconds old by the clock of the worker. Whatever that says, the record was there.
_BACK: Final = (10.0, 60.0, 600.0)
_NO_RIGHT: Final = "grant its user the right DESCRIBE on the cluster"
_NO_REQUEST: Final = "brokers of Kafka 3.3 or later do, if they run without ZooKeeper"


class KafkaPythonClock(ServiceClock):
    """The time of the leader of the controllers: they answer a question for their quorum.

    Args:
        servers: to name.
        wall: the clock of this machine, in seconds since 1970, to guess when records were written.
    """

    def __init__(
        self,
        servers: str,
        config: Mapping[str, Any],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._servers = servers
        config = {**config, "bootstrap_timeout_ms": _PATIENCE}
        self._admin = made(servers, KafkaAdminClient, config)
        self._clock = clock
        self._wall = wall
        self._reason = ""
        self._not_before = float("-inf")

    @override
    def time(self, topics: Sequence[str]) -> ServiceTime:
        with Failures(self._servers):
            if self._clock() >= self._not_before:
                try:
                    return ServiceTime(self._time())
                except kafka_errors.BrokerResponseError as error:
                    self._reason = self._why(error)
                    if not error.retriable:
                        self._not_before = self._clock() + _RARELY
            return ServiceTime(self._newest(topics), self._reason)

    @override
    def close(self) -> None:
        self._admin.close()

    def _time(self) -> float:
        topic = DescribeQuorumRequest.TopicData
        partitions = [topic.PartitionData(partition_index=0)]
        request = DescribeQuorumRequest(topics=[topic(topic_name=_METADATA, partitions=partitions)])
        # Its own describe_metadata_quorum() fails over answers of Kafka 3.3 to 3.8.
        manager = self._admin._manager  # noqa: SLF001
        answer = manager.run(manager.send, request)
        found = [one for topic in answer.topics for one in topic.partitions]
        for code in (answer.error_code, *(one.error_code for one in found)):
            if code:
                raise kafka_errors.for_code(code)
        # All are times of the leader's clock: when the others have asked it, and when it answers.
        replicas = [one for part in found for one in (*part.current_voters, *part.observers)]
        newest = max((one.last_fetch_timestamp for one in replicas), default=-1)
        if newest < 0:
            raise kafka_errors.UnsupportedVersionError
        return float(newest) / 1000

    def _newest(self, topics: Sequence[str]) -> float | None:
        described = self._admin.describe_topics(list(topics)) if topics else []
        partitions = [
            TopicPartition(topic["name"], one["partition_index"])
            for topic in described
            for one in topic["partitions"]
        ]
        try:
            return self._latest_of(partitions, OffsetSpec.MAX_TIMESTAMP)
        except kafka_errors.UnsupportedVersionError:
            now = self._wall()
            guesses = (int((now - back) * 1000) for back in _BACK)
            found = (self._latest_of(partitions, guess) for guess in guesses)
            return next((seconds for seconds in found if seconds is not None), None)

    def _latest_of(self, partitions: Sequence[TopicPartition], at: int) -> float | None:
        """The latest timestamp of one record of each partition, in seconds since 1970.

        Args:
            partitions: to ask for.
            at: which record it is: the first one of that time or later, in milliseconds since
                1970, or the newest one.
        """
        found = self._admin.list_partition_offsets(dict.fromkeys(partitions, at))
        latest = max((one.timestamp for one in found.values()), default=-1)
        return None if latest < 0 else latest / 1000

    def _why(self, error: Exception) -> str:
        remedy = _NO_RIGHT if isinstance(error, kafka_errors.AuthorizationError) else _NO_REQUEST
        return f"Kafka at {self._servers} does not tell its time ({error!r}): {remedy}"
