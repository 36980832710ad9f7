"""The seam between state and where it is kept: ordered rows of bytes, changed in atomic batches."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PUT: Final = 0
DELETE: Final = 1
DELETE_RANGE: Final = 2
_FEW: Final = 16

RowChange = tuple[Literal[0, 1, 2], bytes, bytes]
"""``(PUT, row, value)``, ``(DELETE, row, b"")`` or ``(DELETE_RANGE, first row, end row)``."""

RowsOf = Sequence[tuple[bytes, bytes]] | None
"""The rows of a prefix and their values; None if there are too many."""


class Batch:
    """Changes that a store makes together or not at all, in the order in which they were added.

    Changes of timers come last, one index after the other: a store takes rows fastest that sort
    one after the other.

    ``sequence`` is the number that the store has after the batch. It is known while the batch is
    filled, so rows can carry it: what is appended later sorts later, without a read.
    """

    __slots__ = ("_parts", "_tags", "_times", "sequence")

    def __init__(self, sequence: int) -> None:
        self.sequence = sequence
        # Three entries per change, not a tuple: large batches are no work for the collector.
        self._parts: list[Any] = []
        self._times: list[Any] = []
        self._tags: list[Any] = []

    @property
    def changes(self) -> Iterator[RowChange]:
        """The changes, in order."""
        parts = chain(self._parts, self._times, self._tags)
        return zip(parts, parts, parts, strict=True)

    def put(self, row: bytes, value: bytes) -> None:
        """Sets a row."""
        self._parts += (PUT, row, value)

    def delete(self, row: bytes) -> None:
        """Removes a row, if it is there."""
        self._parts += (DELETE, row, b"")

    def delete_range(self, lower: bytes, upper: bytes) -> None:
        """Removes every row in ``[lower, upper)`` that is there before or was added before."""
        self._parts += (DELETE_RANGE, lower, upper)

    def put_timer(self, tag_row: bytes, time: bytes, time_row: bytes, payload: bytes) -> None:
        """Sets the rows of a timer in both indexes."""
        self._tags += (PUT, tag_row, time)
        self._times += (PUT, time_row, payload)

    def delete_timer(self, tag_row: bytes, time_row: bytes) -> None:
        """Removes the rows of a timer in both indexes."""
        self._tags += (DELETE, tag_row, b"")
        self._times += (DELETE, time_row, b"")

    def move_timer(self, time_row: bytes) -> None:
        """Removes a timer from the index by time; ``put_timer`` puts it elsewhere."""
        self._times += (DELETE, time_row, b"")

    @property
    def size(self) -> int:
        """The bytes in all rows and values."""
        parts = (self._parts, self._times, self._tags)
        return sum(sum(map(len, part[1::3])) + sum(map(len, part[2::3])) for part in parts)

    def take_back(self, other: Batch) -> None:
        """Removes every row that ``other`` sets, which was written before."""
        for own, parts in (
            (self._parts, other._parts),
            (self._times, other._times),
            (self._tags, other._tags),
        ):
            for change, row in zip(parts[::3], parts[1::3], strict=True):
                if change == PUT:
                    own.extend((DELETE, row, b""))

    def __len__(self) -> int:
        return (len(self._parts) + len(self._times) + len(self._tags)) // 3


class Store(Protocol):
    """Rows in byte order. One writer and one thread; every method raises ``StateError``s only.

    A batch is visible to all reads that begin after ``write``; an iterator sees the rows as they
    were when it was made, whatever is written meanwhile.
    """

    @property
    def sequence(self) -> int:
        """The number of the last batch; 0 as long as nothing was ever written."""

    def get(self, row: bytes) -> bytes | None:
        """The value of a row, or None if it is not there."""

    def multi_get(self, rows: Sequence[bytes]) -> list[bytes | None]:
        """The values of many rows, in the order asked; fastest if that is the order of bytes."""

    def iterate(self, lower: bytes, upper: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows and values in ``[lower, upper)``, in order, a few in memory at a time."""

    def iterate_rows(self, lower: bytes, upper: bytes) -> Iterator[bytes]:
        """As ``iterate``, without the values."""

    def read_prefixes(self, prefixes: Sequence[bytes], most: int, most_bytes: int) -> list[RowsOf]:
        """The rows and values of each prefix, in one pass.

        Prefixes come in the order of bytes, none starts with another, and FF is no first byte. Of
        those with more than ``most`` rows, or more than ``most_bytes`` in their values: None.
        """

    def write(self, batch: Batch) -> None:
        """Makes the changes of a batch whose sequence is the next one, else ValueError."""

    def mark(self) -> None:
        """Makes an undo point, to which ``undo`` goes back; one at a time, else ValueError."""

    def unmark(self) -> None:
        """Lets go of the undo point, if there is one: what was written since is there to stay."""

    def undo(self) -> None:
        """Goes back to the undo point, which is gone then; ValueError if there is none.

        Iterators that are open raise ``StoreClosed`` from then on.
        """

    def snapshot(self, directory: Path) -> None:
        """Makes a store in ``directory``, absent or empty, that holds what this one holds now.

        It is complete on disk and independent of this one; files that do not change are shared.

        Raises:
            ValueError: there is an undo point.
        """

    def flush(self) -> None:
        """Makes everything written so far survive the end of the process and of the machine."""

    def close(self) -> None:
        """Flushes and lets go of files, locks and memory; may be called again."""


def check_sequence(batch: Batch, current: int) -> None:
    """Raises ValueError unless ``batch`` is the one that follows number ``current``."""
    if batch.sequence != current + 1:
        message = f"batch {batch.sequence} cannot follow batch {current}: it was made for another"
        raise ValueError(message)


def check_mark(marked: bool, expected: bool) -> None:
    """Raises ValueError unless there is an undo point, or is none, as ``expected``."""
    if marked != expected:
        message = (
            "there is no undo point to go back to"
            if expected
            else "there is an undo point already: go back to it, or let go of it"
        )
        raise ValueError(message)


def rows_within(rows: Iterator[tuple[bytes, bytes]], most: int, most_bytes: int) -> RowsOf:
    """All of these rows; None if there are more than ``most``, or their values are larger."""
    found: list[tuple[bytes, bytes]] = []
    for row, value in rows:
        most_bytes -= len(value)
        if len(found) == most or most_bytes < 0:
            return None
        found.append((row, value))
    return found


def delete_rows(store: Store, batch: Batch, lower: bytes, upper: bytes) -> None:
    """Adds to ``batch`` the removal of the rows that ``store`` holds in ``[lower, upper)``.

    Few rows go one by one: a range costs every later read that passes it until it is compacted.
    """
    few = list(islice(store.iterate_rows(lower, upper), _FEW + 1))
    if len(few) > _FEW:
        batch.delete_range(lower, upper)
        return
    for row in few:
        batch.delete(row)
