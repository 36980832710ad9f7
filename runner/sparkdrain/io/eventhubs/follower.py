"""Follows one partition of a hub: a thread, since the client library calls back."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.io.eventhubs.errors import EventHubsDataLost, EventHubsUnreachable
from sparkdrain.io.kafka.client import NO_HEADERS, FetchedRecords, Headers, Partition
from sparkdrain.io.kafka.quiet_log import OncePerMinute

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from azure.eventhub import EventData, EventHubConsumerClient

    from sparkdrain.io.eventhubs.connections import HubConnections
    from sparkdrain.io.eventhubs.errors import EventHubsFailed

_LOGGER = logging.getLogger(__name__)
_LOGGER.addFilter(OncePerMinute())
_AT_ONCE: Final = 500
_AGAIN: Final = 1.0
_ANSWER: Final = 10.0
_STOPPED: Final = 5.0


class Follower:
    """Hands over the events of a partition from a sequence number on, in order, each once.

    The client library is started anew after each of its errors, where the events have got to.

    Args:
        partition: to follow.
        begin: the sequence number of the first event.
        properties: whether the application's properties are wanted.
        take: takes events; may wait, and then no more are fetched.
        fail: takes the error that ends it.
    """

    def __init__(
        self,
        connections: HubConnections,
        partition: Partition,
        begin: int,
        *,
        properties: bool,
        take: Callable[[FetchedRecords], object],
        fail: Callable[[EventHubsFailed], object],
    ) -> None:
        self._connections = connections
        self._partition = partition
        self._next = begin
        self._properties = properties
        self._take = take
        self._fail = fail
        self._stopped = threading.Event()
        self._may_go_on = threading.Event()
        self._may_go_on.set()
        self._consumer: EventHubConsumerClient | None = None
        self._failure: EventHubsFailed | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(
            target=self._run, name=f"eventhubs-{partition}", daemon=True
        )

    @property
    def is_stopped(self) -> bool:
        """Whether the reader wants no more of its events."""
        return self._stopped.is_set()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def pause(self) -> None:
        """Hand over no more than what is on its way."""
        self._may_go_on.clear()

    def resume(self) -> None:
        """Go on."""
        self._may_go_on.set()

    def stop(self) -> None:
        """End soon; nothing is handed over any more."""
        self._stopped.set()
        self._may_go_on.set()
        self._close()

    def join(self) -> None:
        """Wait, not for long, until it has ended."""
        self._thread.join(_STOPPED)

    def _run(self) -> None:
        while not self._stopped.is_set():
            failure = self._follow()
            if self._stopped.is_set():
                return
            if failure is not None and not isinstance(failure, EventHubsUnreachable):
                self._fail(failure)
                return
            if failure is not None:
                _LOGGER.warning("%s is followed again soon: %s", self._partition, failure)
            self._stopped.wait(_AGAIN)

    def _follow(self) -> EventHubsFailed | None:
        """Receive until the client fails or this is stopped; why it failed."""
        self._failure = None
        try:
            with self._connections.telling():
                consumer = self._connections.consumer()
                with self._lock:
                    self._consumer = consumer
                if not self._stopped.is_set():
                    consumer.receive_batch(
                        self._received,
                        max_batch_size=_AT_ONCE,
                        prefetch=_AT_ONCE,
                        partition_id=str(self._partition.number),
                        starting_position=self._next,
                        starting_position_inclusive=True,
                        on_error=self._erred,
                    )
        except EventHubsUnreachable as error:
            self._failure = self._failure or error
        finally:
            self._close()
        return self._failure

    def _received(self, _: object, events: Sequence[EventData]) -> None:
        self._may_go_on.wait()
        if self._stopped.is_set():
            return
        new = [one for one in events if (one.sequence_number or 0) >= self._next]
        if not new:
            return
        first = new[0].sequence_number
        if first != self._next:
            self._failure = EventHubsDataLost(
                f"{self._partition}: the first event after {self._next - 1} is {first}"
            )
            self._close()
            return
        batch = fetched(self._partition, new, properties=self._properties)
        self._next = batch.after
        self._take(batch)

    def _erred(self, _: object, error: Exception) -> None:
        self._failure = self._connections.failure(error)
        self._close()

    def _close(self) -> None:
        with self._lock:
            consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()


def fetched(
    partition: Partition, events: Sequence[EventData], *, properties: bool
) -> FetchedRecords:
    """Events column by column."""
    numbers = [int(one.sequence_number or 0) for one in events]
    headers: Sequence[Headers] = [_properties(one) for one in events] if properties else ()
    return FetchedRecords(
        partition,
        numbers,
        [_millis(one) for one in events],
        [one.partition_key for one in events],
        [_body(one) for one in events],
        headers,
        numbers[-1] + 1,
    )


def one_after(consumer: Any, partition: Partition, moment: datetime) -> int | None:
    """The sequence number of the first event that the service took then or later.

    Args:
        consumer: is closed then.
        partition: to look into.
        moment: when.

    Returns:
        None if it has not come within ten seconds.
    """
    found: list[int] = []
    errors: list[Exception] = []

    def received(_: object, events: Sequence[EventData]) -> None:
        if events:
            found.append(int(events[0].sequence_number or 0))
        consumer.close()

    def erred(_: object, error: Exception) -> None:
        errors.append(error)
        consumer.close()

    consumer.receive_batch(
        received,
        max_batch_size=1,
        max_wait_time=_ANSWER,
        prefetch=1,
        partition_id=str(partition.number),
        starting_position=moment,
        starting_position_inclusive=True,
        on_error=erred,
    )
    if errors and not found:
        raise errors[0]
    return found[0] if found else None


def _millis(event: EventData) -> int:
    taken = event.enqueued_time
    return int(taken.timestamp() * 1000) if taken is not None else int(time.time() * 1000)


def _body(event: EventData) -> bytes:
    body = event.body
    if isinstance(body, bytes):
        return body
    return b"".join(part if isinstance(part, bytes) else str(part).encode() for part in body)


def _properties(event: EventData) -> Headers:
    given = event.properties
    if not given:
        return NO_HEADERS
    return tuple(
        (name.decode() if isinstance(name, bytes) else str(name), _bytes(value))
        for name, value in given.items()
    )


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return str(value).encode()
