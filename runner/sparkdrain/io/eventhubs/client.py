"""The client library for Event Hubs, azure-eventhub, behind what readers of partitions ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkdrain.io.eventhubs.catalog import HubCatalog
from sparkdrain.io.eventhubs.clock import HubClock
from sparkdrain.io.eventhubs.connections import HubConnections
from sparkdrain.io.eventhubs.events_reader import HubReader
from sparkdrain.io.eventhubs.outgoing import Outgoing

if TYPE_CHECKING:
    from sparkdrain.io.eventhubs.settings import HubSettings


class EventHubsClient:
    """One hub; a ``LogClient`` of ``io.kafka.client`` for those who read."""

    def __init__(self, settings: HubSettings) -> None:
        self._settings = settings
        self._connections = HubConnections(settings)

    def catalog(self) -> HubCatalog:
        """Opens a catalog of the hub's partitions."""
        return HubCatalog(self._connections)

    def records(self, *, headers: bool) -> HubReader:
        """Opens a source of events, with or without the application's properties."""
        return HubReader(self._connections, properties=headers)

    def clock(self) -> HubClock:
        """Opens a clock that tells the time of the hub's newest event."""
        return HubClock(self.catalog(), self._settings)

    def outgoing(self) -> Outgoing:
        """Opens a sender of events."""
        return Outgoing(self._connections)
