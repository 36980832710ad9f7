"""Records on their way from the client to the readers of partitions; one for each process.

A client fetches all its partitions together, and ahead of time; a splittable DoFn wants those of
one of them, from a certain offset on. What comes for the others meanwhile waits here.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sparkdrain.io.kafka.client import FetchedRecords, LostRecords, Partition, nothing

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.io.errors import RecordsLost
    from sparkdrain.io.kafka.client import RecordReader

# More at once do not fit into the caches of a processor: 2,000 cost half as much again each.
_AT_ONCE: Final = 500
# Records of a partition that may wait before it is paused.
_ROOM: Final = 50_000
# Seconds after which a partition that no reader asks for is forgotten: another slot reads it, or
# none does.
_FORGOTTEN: Final = 20.0
# How long after its beginning an intake waits for records that there may be; seconds. A first round
# that finds nothing, because the client still connects, would cost a job that goes on a checkpoint.
_FIRST: Final = 0.3


@dataclass(slots=True)
class _Line:
    """What is known of a followed partition.

    Attributes:
        low: the first offset that was not handed out.
        after: the offset that the client will go on with; all between is in ``waiting``, or is
            no record.
        asked: when it was last asked for.
        newest: when there last was a record, or when it was first asked for.
        lost: why there is nothing behind what waits, if records were lost.
    """

    low: int
    after: int
    asked: float
    newest: float
    waiting: deque[FetchedRecords] = field(default_factory=deque)
    held: int = 0
    paused: bool = False
    lost: RecordsLost | None = None

    def goes_on_at(self, offset: int) -> bool:
        first = self.waiting[0].offsets[0] if self.waiting else self.after
        return self.low <= offset <= first


class Intake:
    """Hands records out, partition by partition. Any thread may ask.

    Args:
        records: the client's.
        room: records of a partition that may wait here.
    """

    def __init__(
        self, records: RecordReader, clock: Callable[[], float], room: int = _ROOM
    ) -> None:
        self._records = records
        self._clock = clock
        self._room = room
        self._lines: dict[Partition, _Line] = {}
        self._lock = threading.Lock()
        self._began: float | None = None

    def take(self, partition: Partition, offset: int, wait: float) -> FetchedRecords:
        """The next records at ``offset`` or later.

        Args:
            offset: the first one wanted.
            wait: seconds to wait for a record if there is none. An intake that has just begun
                waits longer, until brokers have said whether there is one.

        Returns:
            Records; or none, and how far it is certain that there are none.

        Raises:
            RecordsLost: those that come next in this partition were deleted.
            ServiceRefused: the service will not have it.
        """
        with self._lock:
            line = self._line(partition, offset)
            if self._began is None:
                self._began = line.asked
            end = line.asked + wait
            left = wait
            while not line.waiting:
                if line.lost is not None:
                    # Who asks again asks the service anew.
                    del self._lines[partition]
                    raise line.lost
                self._gather(left)
                now = self._clock()
                left = end - now
                if left <= 0 and now < self._began + _FIRST and self._is_open(partition, line):
                    left = self._began + _FIRST - now
                if left <= 0 and line.lost is None:
                    break
            if not line.waiting:
                return nothing(partition, line.after)
            batch = line.waiting.popleft()
            line.held -= len(batch)
            line.low = batch.offsets[-1] + 1
            if line.paused and line.held < self._room // 2:
                line.paused = False
                self._records.resume(partition)
            return batch

    def put_back(self, offset: int, batch: FetchedRecords) -> None:
        """What was taken last, and is not needed now: ``offset`` will be asked for next."""
        with self._lock:
            line = self._lines.get(batch.partition)
            if line is not None and line.low == batch.offsets[-1] + 1:
                line.waiting.appendleft(batch)
                line.held += len(batch)
                line.low = offset

    def _is_open(self, partition: Partition, line: _Line) -> bool:
        """Whether brokers have not said yet that there is nothing new."""
        end = self._records.end(partition)
        return end is None or end > line.after

    def end(self, partition: Partition) -> int | None:
        """The offset after its last record, as far as it is known."""
        with self._lock:
            return self._records.end(partition)

    def quiet(self, partition: Partition) -> float:
        """Seconds since the newest record of a partition came; 0 if it is not followed."""
        with self._lock:
            line = self._lines.get(partition)
            return 0.0 if line is None else self._clock() - line.newest

    def followed(self) -> list[Partition]:
        """The partitions that are being read."""
        with self._lock:
            return sorted(self._lines)

    def close(self) -> None:
        """Let go of connections."""
        with self._lock:
            self._records.close()

    def _line(self, partition: Partition, offset: int) -> _Line:
        now = self._clock()
        line = self._lines.get(partition)
        if line is None or not line.goes_on_at(offset):
            self._records.follow(partition, offset)
            if line is not None and line.paused:
                self._records.resume(partition)
            line = _Line(offset, offset, now, now)
            self._lines[partition] = line
        line.asked = now
        return line

    def _gather(self, wait: float) -> None:
        self._leave_forgotten()
        for batch in self._records.poll(wait, _AT_ONCE):
            line = self._lines.get(batch.partition)
            if isinstance(batch, LostRecords):
                self._records.leave(batch.partition)
                if line is not None:
                    line.lost = batch.error
                continue
            # What was under way when it was told to go on elsewhere is not wanted any more.
            if line is None or batch.after < line.after:
                continue
            line.after = batch.after
            if not batch.offsets:
                continue
            line.newest = self._clock()
            line.waiting.append(batch)
            line.held += len(batch)
            if line.held > self._room and not line.paused:
                line.paused = True
                self._records.pause(batch.partition)

    def _leave_forgotten(self) -> None:
        now = self._clock()
        forgotten = [at for at, line in self._lines.items() if now - line.asked > _FORGOTTEN]
        for partition in forgotten:
            self._records.leave(partition)
            del self._lines[partition]
