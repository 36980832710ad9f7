"""``WriteToEventHubs``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import apache_beam as beam
from apache_beam.metrics import Metrics
from typing_extensions import override

from sparkdrain.io.eventhubs.errors import EventHubsWriteFailed
from sparkdrain.io.eventhubs.events import OutgoingEvent
from sparkdrain.io.eventhubs.read import NAMESPACE
from sparkdrain.io.eventhubs.service import HubService
from sparkdrain.io.eventhubs.settings import hub_settings
from sparkdrain.io.kafka.client import NO_HEADERS

if TYPE_CHECKING:
    from apache_beam.coders import Coder

    from sparkdrain.io.eventhubs.outgoing import Outgoing
    from sparkdrain.io.eventhubs.settings import HubSettings
    from sparkdrain.io.kafka.client import Headers

_LONGEST: Final = 128
"""Characters of a partition key."""


class WriteToEventHubs(beam.PTransform):
    """Writes events: pairs of partition key and body, or `OutgoingEvent`.

    Each event is written at least once: a bundle ends when the service has all of its events, and
    fails if it does not take them. A bundle that is run again writes its events again. Event Hubs
    has no transactions over AMQP; for exactly once use its Kafka surface with `WriteToKafka`.

    Args:
        hub: its name; None for the one that the connection string names.
        connection_string: as for `ReadFromEventHubs`.
        namespace: as for `ReadFromEventHubs`.
        value_coder: encodes bodies; by default they are bytes.
        websockets: whether AMQP goes through port 443, where 5671 is closed.

    Raises:
        BadOption: arguments that contradict each other or say too little.
    """

    def __init__(
        self,
        hub: str | None = None,
        *,
        connection_string: str | None = None,
        namespace: str | None = None,
        value_coder: Coder | None = None,
        websockets: bool = False,
    ) -> None:
        super().__init__()
        self._settings = hub_settings(hub, connection_string, namespace, websockets=websockets)
        self._value_coder = value_coder

    @override
    def expand(self, events: beam.PCollection) -> None:
        _ = events | "Send" >> beam.ParDo(SendEvents(self._settings, self._value_coder))


class SendEvents(beam.DoFn):
    """Sends events; a bundle ends when the service has them.

    Args:
        value_coder: encodes bodies; None for bytes.
    """

    def __init__(self, settings: HubSettings, value_coder: Coder | None) -> None:
        self._settings = settings
        self._value_coder = value_coder
        self._written = Metrics.counter(NAMESPACE, "events_written")
        self._outgoing: Outgoing | None = None

    @override
    def setup(self) -> None:
        self._outgoing = HubService(self._settings).open_client().outgoing()

    @override
    def start_bundle(self) -> None:
        assert self._outgoing is not None
        self._outgoing.forget()  # what a bundle that failed has left

    @override
    def process(self, element: Any) -> None:
        assert self._outgoing is not None
        self._outgoing.add(*self._event(element))

    @override
    def finish_bundle(self) -> None:
        assert self._outgoing is not None
        self._written.inc(self._outgoing.send())

    @override
    def teardown(self) -> None:
        if self._outgoing is not None:
            self._outgoing.close()
            self._outgoing = None

    def _event(self, element: Any) -> tuple[bytes, str | None, int | None, Headers]:
        """Body, partition key, partition and properties of an element.

        Raises:
            EventHubsWriteFailed: it is none.
        """
        if isinstance(element, OutgoingEvent):
            value, key, partition, properties = element
        else:
            try:
                key, value = element
            except (TypeError, ValueError):
                msg = f"WriteToEventHubs takes pairs of key and body, or OutgoingEvent: {element!r}"
                raise EventHubsWriteFailed(msg) from None
            partition, properties = None, NO_HEADERS
        if self._value_coder is not None:
            value = self._value_coder.encode(value)
        if not isinstance(value, bytes):
            msg = f"the body {value!r} is {type(value).__name__}, not bytes: pass value_coder="
            raise EventHubsWriteFailed(msg)
        if key is not None and partition is not None:
            msg = f"{element!r} names a key and a partition: leave out one of them"
            raise EventHubsWriteFailed(msg)
        return value, _key(key), partition, properties


def _key(key: Any) -> str | None:
    if isinstance(key, bytes):
        try:
            key = key.decode()
        except UnicodeDecodeError:
            msg = f"the partition key {key!r} is not UTF-8, which Event Hubs wants"
            raise EventHubsWriteFailed(msg) from None
    if key is None:
        return None
    if not isinstance(key, str):
        msg = f"the partition key {key!r} is {type(key).__name__}, not bytes or text"
        raise EventHubsWriteFailed(msg)
    if len(key) > _LONGEST:
        msg = f"a partition key has {_LONGEST} characters at most, not {len(key)}"
        raise EventHubsWriteFailed(msg)
    return key
