"""The time of Event Hubs, as far as events tell it: the service has no question for its clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from sparkdrain.io.kafka.client import ServiceClock, ServiceTime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparkdrain.io.eventhubs.catalog import HubCatalog
    from sparkdrain.io.eventhubs.settings import HubSettings


class HubClock(ServiceClock):
    """The time of the newest event of a hub, over a connection of its own.

    Args:
        catalog: to ask; no other thread asks it.
    """

    def __init__(self, catalog: HubCatalog, settings: HubSettings) -> None:
        self._catalog = catalog
        self._where = settings.where

    @override
    def time(self, topics: Sequence[str]) -> ServiceTime:
        newest = self._catalog.newest(self._catalog.partitions(topics, None))
        return ServiceTime(newest, f"{self._where} does not tell its time")

    @override
    def close(self) -> None:
        self._catalog.close()
