"""A hub, for those who open the client library where the pipeline runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkdrain.errors import BadSetup

if TYPE_CHECKING:
    from sparkdrain.io.eventhubs.client import EventHubsClient
    from sparkdrain.io.eventhubs.settings import HubSettings


@dataclass(frozen=True)
class HubService:
    """A ``LogService``: a hub, by its settings. It opens the client library."""

    settings: HubSettings

    def open_client(self) -> EventHubsClient:
        """The client library.

        Raises:
            BadSetup: it is not installed here.
        """
        try:
            from sparkdrain.io.eventhubs.client import EventHubsClient  # noqa: PLC0415
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("azure"):
                raise
            msg = (
                "azure-eventhub is not installed where the pipeline runs: "
                "pip install 'spark-drain-runner[eventhubs]', there too"
            )
            raise BadSetup(msg) from error
        return EventHubsClient(self.settings)
