"""Events on their way to a hub."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from azure.eventhub import EventData
from azure.eventhub.exceptions import EventHubError

from sparkdrain.io.eventhubs.errors import EventHubsRefused, EventHubsWriteFailed

if TYPE_CHECKING:
    from azure.eventhub import EventDataBatch, EventHubProducerClient

    from sparkdrain.io.eventhubs.connections import HubConnections
    from sparkdrain.io.kafka.client import Headers

_OPEN: Final = 64
"""Batches that are filled at a time; one is for one key or partition."""


class Outgoing:
    """Fills batches, and sends them when they are full.

    A batch of the service has one partition key, or one partition. So events of many keys make
    many small batches; events without a key fill large ones.
    """

    def __init__(self, connections: HubConnections) -> None:
        self._connections = connections
        self._producer: EventHubProducerClient | None = None
        self._batches: dict[tuple[str | None, int | None], EventDataBatch] = {}
        self._count = 0

    def add(
        self, value: bytes, key: str | None, partition: int | None, properties: Headers
    ) -> None:
        """Put an event into a batch.

        Raises:
            EventHubsWriteFailed: it is larger than the service takes, or a full batch was not
                taken.
        """
        at = (key, partition)
        data = EventData(value)
        if properties:
            data.properties = dict(properties)
        batch = self._batches.get(at)
        if batch is None:
            if len(self._batches) >= _OPEN:
                self._send_all()
            batch = self._batches[at] = self._new(at)
        try:
            batch.add(data)
        except ValueError:
            if len(batch):
                self._send(self._batches.pop(at))
                batch = self._batches[at] = self._new(at)
            try:
                batch.add(data)
            except ValueError:
                del self._batches[at]
                msg = (
                    f"{self._connections.settings.where}: an event of {len(value)} bytes is "
                    f"larger than the service takes ({batch.max_size_in_bytes} bytes)"
                )
                raise EventHubsWriteFailed(msg) from None
        self._count += 1

    def send(self) -> int:
        """Send what there is, and wait until the service has it.

        Returns:
            How many events were added since the last call.

        Raises:
            EventHubsWriteFailed: it was not taken.
            EventHubsRefused: the service will not have it.
        """
        self._send_all()
        count, self._count = self._count, 0
        return count

    def forget(self) -> None:
        """What was added before does not matter any more."""
        self._batches.clear()
        self._count = 0

    def close(self) -> None:
        """Let go of connections."""
        self.forget()
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    def _send_all(self) -> None:
        batches, self._batches = self._batches, {}
        for batch in batches.values():
            if len(batch):
                self._send(batch)

    def _send(self, batch: EventDataBatch) -> None:
        try:
            self._open().send_batch(batch)
        except EventHubError as error:
            raise self._failure(error) from error

    def _new(self, at: tuple[str | None, int | None]) -> EventDataBatch:
        key, partition = at
        told: dict[str, Any] = {}
        if key is not None:
            told["partition_key"] = key
        if partition is not None:
            told["partition_id"] = str(partition)
        try:
            return self._open().create_batch(**told)
        except EventHubError as error:
            raise self._failure(error) from error

    def _open(self) -> EventHubProducerClient:
        if self._producer is None:
            self._producer = self._connections.producer()
        return self._producer

    def _failure(self, error: EventHubError) -> Exception:
        self.close()
        failure = self._connections.failure(error)
        if isinstance(failure, EventHubsRefused):
            return failure
        return EventHubsWriteFailed(str(failure))
