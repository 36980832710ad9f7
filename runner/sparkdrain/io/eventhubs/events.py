"""Events as pipelines see them, and how they are coded between steps."""

from __future__ import annotations

from typing import Any, NamedTuple

from apache_beam import coders

from sparkdrain.io.kafka.client import NO_HEADERS, Headers
from sparkdrain.io.kafka.records import ANY, BYTES, HEADERS, INT, TEXT, NamedTupleCoder


class HubEvent(NamedTuple):
    """An event with all that is known of it.

    Attributes:
        hub: where it is from.
        partition: its id in the hub.
        sequence_number: within the partition; the next event has the next number.
        enqueued_time: when the service took it, milliseconds since 1970.
        key: the partition key in UTF-8; None if it has none.
        value: the body as bytes, or what ``value_coder`` made of it.
        properties: the application's, pairs of a name and bytes or None. Text is in UTF-8; other
            values are as Python shows them.
    """

    hub: str
    partition: int
    sequence_number: int
    enqueued_time: int
    key: bytes | None
    value: Any
    properties: Headers = NO_HEADERS


class OutgoingEvent(NamedTuple):
    """An event to write, for those that need to say more than a key and a value.

    Attributes:
        value: bytes, or what ``value_coder`` encodes.
        key: the partition key, as text or in UTF-8. Events with one key go to one partition.
        partition: which is to have it, instead of a key.
        properties: pairs of a name and bytes or None.
    """

    value: Any
    key: bytes | str | None = None
    partition: int | None = None
    properties: Headers = NO_HEADERS


class HubEventCoder(NamedTupleCoder):
    """Encodes `HubEvent`."""

    kind = HubEvent
    fields = (TEXT, INT, INT, INT, BYTES, ANY, HEADERS)


class OutgoingEventCoder(NamedTupleCoder):
    """Encodes `OutgoingEvent`."""

    kind = OutgoingEvent
    fields = (ANY, ANY, coders.NullableCoder(INT), HEADERS)
