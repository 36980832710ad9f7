"""Timers that are due, read from the store in one pass over the index by time, for many keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from timers_state.keys import stored_timer, tag_row_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from timers_state.keys import Domain
    from timers_state.store.store import Batch

TAKEN_BYTES: Final = 640
"""What a timer costs in memory that was taken from the store, until that is written."""

StoredTimer = tuple[int, bytes, bytes, bytes, bytes, bytes, int]
"""Time, window, family, dynamic tag, payload; then its row, and where its name starts in there."""

Name = tuple["Domain", bytes, bytes, bytes]
"""Which timer of a key: domain, window, family, dynamic tag."""

Taken = dict[Name, tuple[int, bytes, int]]
"""Timers of a key that were taken from the store: their time, row, and where the name starts."""


class DueKey(NamedTuple):
    """A key whose timers are due.

    Attributes:
        timers: the first that the store has, in time order; None if something of the key may be in
            memory: then its scope is to be asked.
        horizon: microseconds. ``timers`` has all timers of the key in the store up to this time.
            If ``timers`` is None, the store has a timer of the key at or before this time.
    """

    key: bytes
    timers: list[StoredTimer] | None
    horizon: int


def read_ahead(
    rows: Iterator[tuple[bytes, bytes]],
    end: bytes,
    bounds: tuple[int, int],
    domain: Domain,
    taken_of: Callable[[bytes], Taken | None],
    is_hidden: Callable[[tuple[int, int, bytes, bytes, bytes, bytes]], bool],
) -> tuple[list[DueKey], bytes]:
    """Reads some rows of the index by time.

    Args:
        rows: with payloads, up to ``end``.
        end: above all rows that are due.
        bounds: how late timers may be, and about how many to read.
        taken_of: what was taken already of a key; None if something of it may be in memory.
        is_hidden: whether a timer of such a key does not count anymore.

    Returns:
        Keys in the order of their first timers; and a row at or above all those of them.
    """
    up_to, left = bounds
    found: dict[bytes, list[StoredTimer] | None] = {}
    for row, payload in rows:
        time, group, key, window, family, tag, name = stored_timer(row)
        if left <= 0 and found:
            return _cut(found, time, key), row
        left -= 1
        taken = taken_of(key)
        if taken is None:
            if key not in found and not is_hidden((time, group, key, window, family, tag)):
                found[key] = None
        elif (domain, window, family, tag) not in taken:
            timer = (time, window, family, tag, payload, row, name)
            timers = found.get(key)
            if timers is None:
                found[key] = [timer]
            else:
                timers.append(timer)
    return [DueKey(key, timers, up_to) for key, timers in found.items()], end


def _cut(found: dict[bytes, list[StoredTimer] | None], time: int, key: bytes) -> list[DueKey]:
    """What was found, if the first row that was not read has this time and key.

    Rows of one time are in the order of keys: those that were found at that time have no more
    then, but for the key itself. Others may.
    """
    return [
        DueKey(one, timers, time if timers[-1][0] == time and one != key else time - 1)
        if timers is not None
        else DueKey(one, None, time)
        for one, timers in found.items()
    ]


def remove_taken(batch: Batch, taken: Taken) -> None:
    """Adds to ``batch`` that timers are gone."""
    for _, row, name in taken.values():
        batch.delete_timer(tag_row_of(row, name), row)
