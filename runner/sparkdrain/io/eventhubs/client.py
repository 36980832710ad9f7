"""The client on azure-eventhub, behind what readers of partitions ask for."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from sparkdrain.errors import BadOption
from sparkdrain.io.eventhubs.connections import HubConnections
from sparkdrain.io.eventhubs.errors import EventHubsUnreachable
from sparkdrain.io.eventhubs.events_reader import HubReader
from sparkdrain.io.eventhubs.follower import one_after
from sparkdrain.io.eventhubs.outgoing import Outgoing
from sparkdrain.io.kafka.client import Catalog, Partition, ServiceClock, ServiceTime

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sparkdrain.io.eventhubs.settings import HubSettings

# How long a question is asked again, and the pause before; seconds.
_PATIENCE: Final = 60.0
_PAUSE: Final = 0.5


class EventHubsClient:
    """One hub; a ``LogClient`` of ``io.kafka.client`` for those who read."""

    def __init__(self, settings: HubSettings) -> None:
        self._connections = HubConnections(settings)

    def catalog(self) -> HubCatalog:
        """Opens a catalog of the hub's partitions."""
        return HubCatalog(self._connections)

    def records(self, *, headers: bool) -> HubReader:
        """Opens a source of events, with or without the application's properties."""
        return HubReader(self._connections, properties=headers)

    def clock(self) -> HubCatalog:
        """Opens a catalog that tells the time of the hub's newest event."""
        return HubCatalog(self._connections)

    def outgoing(self) -> Outgoing:
        """Opens a sender of events."""
        return Outgoing(self._connections)


class HubCatalog(Catalog, ServiceClock):
    """A position is a sequence number, which the service counts from 0 up."""

    def __init__(self, connections: HubConnections) -> None:
        self._connections = connections
        self._consumer: Any = None

    @override
    def partitions(self, topics: Sequence[str], pattern: str | None) -> list[Partition]:
        hub = self._connections.settings.hub
        found = self._ask(lambda consumer: consumer.get_partition_ids())
        return sorted(Partition(hub, int(ident)) for ident in found)

    @override
    def earliest(self, partition: Partition) -> int:
        return int(self._properties(partition)["beginning_sequence_number"])

    @override
    def latest(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        return {one: _end(self._properties(one)) for one in partitions}

    @override
    def at_time(self, partition: Partition, millis: int) -> int | None:
        properties = self._properties(partition)
        last = properties["last_enqueued_time_utc"]
        if properties["is_empty"] or int(last.timestamp() * 1000) < millis:
            return None
        moment = datetime.fromtimestamp(millis / 1000, timezone.utc)
        # It takes a connection of its own: the library cannot stop receiving otherwise.
        return self._ask(lambda _: one_after(self._connections.consumer(), partition, moment))

    @override
    def time(self, topics: Sequence[str]) -> ServiceTime:
        # The service has no question for its clock, and says when it took the newest event.
        found = [self._properties(one) for one in self.partitions(topics, None)]
        taken = [one["last_enqueued_time_utc"].timestamp() for one in found if not one["is_empty"]]
        reason = f"{self._connections.settings.where} does not tell its time"
        return ServiceTime(max(taken, default=None), reason)

    @override
    def committed(self, partition: Partition) -> int | None:
        msg = "Event Hubs keeps no positions of a group: use 'earliest', 'latest' or a time"
        raise BadOption(msg)

    @override
    def commit(self, offsets: Mapping[Partition, int]) -> None:
        msg = "Event Hubs keeps no positions of a group"
        raise BadOption(msg)

    @override
    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _properties(self, partition: Partition) -> dict[str, Any]:
        ident = str(partition.number)
        return self._ask(lambda consumer: consumer.get_partition_properties(ident))

    def _ask(self, question: Callable[[Any], Any]) -> Any:
        """Ask until it is answered, or patience is at an end."""
        began = time.monotonic()
        while True:
            try:
                if self._consumer is None:
                    self._consumer = self._connections.consumer()
                with self._connections.telling():
                    return question(self._consumer)
            except EventHubsUnreachable:
                self.close()
                if time.monotonic() - began > _PATIENCE:
                    raise
            time.sleep(_PAUSE)


def _end(properties: Mapping[str, Any]) -> int:
    if properties["is_empty"] and properties["last_enqueued_sequence_number"] < 0:
        return int(properties["beginning_sequence_number"])
    return int(properties["last_enqueued_sequence_number"]) + 1
