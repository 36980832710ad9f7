"""Reads from and writes to Azure Event Hubs over AMQP, in Python alone.

Owns: ``ReadFromEventHubs``, ``WriteToEventHubs``, and the client library under them.
Never: how a partition is read in rounds; that is ``io.kafka.read_partition``, for any partitioned
log. Checkpoints of the client library are not used: positions are in the job's own state.
Start at: ``read.py``; a partition is followed in ``follower.py``. See ``docs/eventhubs.md``.
"""

from __future__ import annotations

from sparkdrain.io.eventhubs.errors import (
    EventHubsDataLost,
    EventHubsFailed,
    EventHubsRefused,
    EventHubsUnreachable,
    EventHubsWriteFailed,
)
from sparkdrain.io.eventhubs.events import HubEvent, OutgoingEvent
from sparkdrain.io.eventhubs.read import ReadFromEventHubs
from sparkdrain.io.eventhubs.write import WriteToEventHubs

__all__ = [
    "EventHubsDataLost",
    "EventHubsFailed",
    "EventHubsRefused",
    "EventHubsUnreachable",
    "EventHubsWriteFailed",
    "HubEvent",
    "OutgoingEvent",
    "ReadFromEventHubs",
    "WriteToEventHubs",
]
