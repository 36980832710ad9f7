"""Events of all partitions that a process follows, as the intake asks for them."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from sparkdrain.io.errors import RecordsLost
from sparkdrain.io.eventhubs.follower import Follower
from sparkdrain.io.kafka.client import LostRecords, RecordReader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sparkdrain.io.eventhubs.connections import HubConnections
    from sparkdrain.io.eventhubs.errors import EventHubsFailed
    from sparkdrain.io.kafka.client import FetchedRecords, Partition


_ROOM: Final = 20_000
"""Events that wait here before those who bring them have to."""
_LOOK: Final = 0.5


class HubReader(RecordReader):
    """See ``RecordReader``.

    Args:
        properties: whether the application's properties are wanted.
    """

    def __init__(self, connections: HubConnections, *, properties: bool) -> None:
        self._connections = connections
        self._properties = properties
        self._followers: dict[Partition, Follower] = {}
        self._ready: deque[tuple[Follower, FetchedRecords | LostRecords]] = deque()
        self._waiting = 0
        self._failures: deque[EventHubsFailed] = deque()
        self._came = threading.Condition()

    @override
    def follow(self, partition: Partition, offset: int) -> None:
        self.leave(partition)
        follower = Follower(
            self._connections,
            partition,
            offset,
            properties=self._properties,
            take=lambda batch: self._take(follower, batch),
            fail=lambda error: self._fail(follower, partition, error),
        )
        self._followers[partition] = follower
        follower.start()

    @override
    def leave(self, partition: Partition) -> None:
        follower = self._followers.pop(partition, None)
        if follower is not None:
            follower.stop()

    @override
    def pause(self, partition: Partition) -> None:
        if partition in self._followers:
            self._followers[partition].pause()

    @override
    def resume(self, partition: Partition) -> None:
        if partition in self._followers:
            self._followers[partition].resume()

    @override
    def poll(self, seconds: float, most: int) -> Iterable[FetchedRecords | LostRecords]:
        end = time.monotonic() + seconds
        batches: list[FetchedRecords | LostRecords] = []
        with self._came:
            while not self._ready and not self._failures:
                left = end - time.monotonic()
                if left <= 0 or not self._came.wait(left):
                    return ()
            if self._failures:
                raise self._failures.popleft()
            count = 0
            while self._ready and count < most:
                follower, batch = self._ready.popleft()
                self._waiting -= len(batch)
                # What came before it was told to go on elsewhere is not wanted any more.
                if self._followers.get(batch.partition) is follower:
                    batches.append(batch)
                    count += len(batch)
            self._came.notify_all()
        return batches

    @override
    def end(self, partition: Partition) -> int | None:
        return None

    @override
    def close(self) -> None:
        followers, self._followers = list(self._followers.values()), {}
        for follower in followers:
            follower.stop()
        for follower in followers:
            follower.join()

    def _take(self, follower: Follower, batch: FetchedRecords) -> None:
        with self._came:
            while self._waiting > _ROOM and not follower.is_stopped:
                self._came.wait(_LOOK)
            self._ready.append((follower, batch))
            self._waiting += len(batch)
            self._came.notify_all()

    def _fail(self, follower: Follower, partition: Partition, error: EventHubsFailed) -> None:
        with self._came:
            if isinstance(error, RecordsLost):
                self._ready.append((follower, LostRecords(partition, error)))
            else:
                self._failures.append(error)
            self._came.notify_all()
