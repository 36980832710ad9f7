"""Connections to one hub by the client library, azure-eventhub, and its errors in our words."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from azure.eventhub import EventHubConsumerClient, EventHubProducerClient, TransportType
from azure.eventhub.exceptions import AuthenticationError, EventHubError, OwnershipLostError
from azure.identity import DefaultAzureCredential

from sparkdrain import redaction
from sparkdrain.io.eventhubs.errors import EventHubsFailed, EventHubsRefused, EventHubsUnreachable

if TYPE_CHECKING:
    from collections.abc import Iterator

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


class HubConnections:
    """Connections to one hub, for those who read and those who write."""

    def __init__(self, settings: HubSettings) -> None:
        self.settings = settings

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
