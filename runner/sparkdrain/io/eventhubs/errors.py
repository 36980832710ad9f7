"""What can go wrong between a pipeline and Event Hubs."""

from __future__ import annotations

from sparkdrain.errors import SparkDrainError
from sparkdrain.io.errors import RecordsLost, ServiceRefused


class EventHubsFailed(SparkDrainError):
    """Base of what goes wrong with Event Hubs; names the hub."""


class EventHubsUnreachable(EventHubsFailed):
    """The service did not answer in time."""


class EventHubsRefused(EventHubsFailed, ServiceRefused):
    """The service answered, and said no: a key, a permission, a hub that is not there."""


class EventHubsDataLost(EventHubsFailed, RecordsLost):
    """Events that are to be read next were deleted; names hub, partition and positions."""


class EventHubsWriteFailed(EventHubsFailed):
    """Events were not taken by the service; the bundle that made them has failed."""
