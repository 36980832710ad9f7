"""The client on azure-eventhub: connections to a hub, its errors in our words, and questions."""

from __future__ import annotations

import contextlib
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from azure.eventhub import EventHubConsumerClient, EventHubProducerClient, TransportType
from azure.eventhub.exceptions import AuthenticationError, EventHubError, OwnershipLostError
from azure.identity import DefaultAzureCredential
from typing_extensions import override

from sparkdrain import redaction
from sparkdrain.errors import BadOption
from sparkdrain.io.eventhubs.errors import EventHubsFailed, EventHubsRefused, EventHubsUnreachable
from sparkdrain.io.eventhubs.events_reader import HubReader
from sparkdrain.io.eventhubs.follower import one_after
from sparkdrain.io.eventhubs.outgoing import Outgoing
from sparkdrain.io.kafka.client import Catalog, Partition, ServiceClock, ServiceTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sparkdrain.io.eventhubs.settings import HubSettings

# What the library puts into the text of an error, by the service's words or its own.
_REFUSALS: Final = (
    "amqp:not-found",
    "amqp:unauthorized-access",
    "amqp:not-allowed",
    "ErrorCondition.NotFound",
    "ErrorCondition.UnauthorizedAccess",
    "ErrorCondition.NotAllowed",
)
_ONCE: Final[dict[str, Any]] = {"retry_total": 0, "auth_timeout": 20}
# How long a question is asked again, and the pause before; seconds.
_PATIENCE: Final = 60.0
_PAUSE: Final = 0.5


class EventHubsClient:
    """Connects to one hub; a ``LogClient`` of ``io.kafka.client`` for those who read."""

    def __init__(self, settings: HubSettings) -> None:
        self.settings = settings

    def catalog(self) -> HubCatalog:
        """Opens a catalog of the hub's partitions."""
        return HubCatalog(self)

    def records(self, *, headers: bool) -> HubReader:
        """Opens a source of events, with or without the application's properties."""
        return HubReader(self, properties=headers)

    def clock(self) -> HubCatalog:
        """Opens a catalog that tells the time of the hub's newest event."""
        return HubCatalog(self)

    def outgoing(self) -> Outgoing:
        """Opens a sender of events."""
        return Outgoing(self)

    def consumer(self) -> EventHubConsumerClient:
        """A connection to read by. It tries nothing again by itself."""
        with self.telling():
            return self._made(
                EventHubConsumerClient, consumer_group=self.settings.consumer_group, **_ONCE
            )

    def producer(self, **extra: Any) -> EventHubProducerClient:
        """A connection to write by."""
        with self.telling():
            return self._made(EventHubProducerClient, **extra)

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """Tells of errors in our words."""
        try:
            yield
        except EventHubError as error:
            raise self.failure(error) from error
        except (OSError, ValueError) as error:
            msg = f"{self.settings.where}: {redaction.redact(str(error))}"
            raise EventHubsUnreachable(msg) from error

    def failure(self, error: Exception) -> EventHubsFailed:
        """What to raise for an error of the library."""
        text = redaction.redact(str(error)).split("\n", maxsplit=1)[0]
        msg = f"{self.settings.where}: {text} ({type(error).__name__})"
        if isinstance(error, AuthenticationError):
            remedy = "See that the key is right and may listen or send."
            return EventHubsRefused(f"{msg}. {remedy}")
        if isinstance(error, OwnershipLostError) or any(one in str(error) for one in _REFUSALS):
            return EventHubsRefused(msg)
        return EventHubsUnreachable(msg)

    def _made(self, kind: Any, **extra: Any) -> Any:
        given = self.settings
        if given.websockets:
            extra["transport_type"] = TransportType.AmqpOverWebsocket
        if given.connection_string:
            return kind.from_connection_string(
                given.connection_string, eventhub_name=given.hub, **extra
            )
        return kind(given.namespace, given.hub, credential=DefaultAzureCredential(), **extra)


class HubCatalog(Catalog, ServiceClock):
    """A position is a sequence number, which the service counts from 0 up."""

    def __init__(self, client: EventHubsClient) -> None:
        self._client = client
        self._consumer: Any = None

    @override
    def partitions(self, topics: Sequence[str], pattern: str | None) -> list[Partition]:
        hub = self._client.settings.hub
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
        return self._ask(lambda _: one_after(self._client.consumer(), partition, moment))

    @override
    def time(self, topics: Sequence[str]) -> ServiceTime:
        # The service has no question for its clock, and says when it took the newest event.
        found = [self._properties(one) for one in self.partitions(topics, None)]
        taken = [one["last_enqueued_time_utc"].timestamp() for one in found if not one["is_empty"]]
        reason = f"{self._client.settings.where} does not tell its time"
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
                    self._consumer = self._client.consumer()
                with self._client.telling():
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
