"""The timers of all keys of a state that follow one clock, the earliest first.

What is not in the store is in lists of keys, one for each time, with a heap of these times; what
the store has is read by one iterator over its time index, which passes over what changed since.
Both are corrected when they are asked, not when a timer changes: a key is never in a later list
than its earliest timer in memory, and a row that is hidden stays hidden until the next writing.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

from timers_state.keys import (
    I64_MIN,
    key_group,
    key_of_time_row,
    owner_of_time_row,
    owners_in_time,
    row_after,
    stored_timer,
    time_bound,
    time_domain_end,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timers_state.keys import Domain
    from timers_state.overlay.residence import Residence, StoredTimer
    from timers_state.overlay.round import Round

_SPARE: Final = 64

Order = tuple[int, bytes]
"""Key group and key: the order of keys that have timers at the same time."""

TimerKey = tuple[int, int, bytes, bytes, bytes, bytes]
"""The key of a timer in the store: time, key group, key, window, family, dynamic tag."""


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


class DueIndex:
    """The earliest timer over all keys of one state and domain.

    A key may be in several lists. ``_bounds`` has, for each key, the time of the list that counts.
    ``_listed`` is how many keys all lists have together. ``_fronts`` has the lists that were looked
    at, as heaps. ``_low`` is at or below all times in the batch that is being made. ``_start`` is
    at or below the first row in the store that is not hidden. ``_read_to`` is at or above all rows
    that ``read_due`` read and that belong to the keys it gave.
    """

    def __init__(self, residence: Residence, running: Round, state_id: int, domain: Domain) -> None:
        self._residence = residence
        self._round = running
        self._state = state_id
        self._domain = domain
        self._start = time_bound(state_id, domain, I64_MIN)
        self._low: int | None = None
        self._rows: Iterator[bytes] | None = None
        self._head: TimerKey | None = None
        self._read_to: bytes | None = None
        self._forget_memory()

    def note(self, time: int, key: bytes, *, alone: bool) -> None:
        """A timer of a key was set; ``alone``: the key has no other one in memory."""
        bound = self._bounds.get(key)
        if bound is None or time < bound or (alone and time != bound):
            self._list(time, key)
            if self._listed > 2 * len(self._bounds) + _SPARE:
                bounds = self._bounds  # what does not count is left out
                self._forget_memory()
                for each, at in bounds.items():
                    self._list(at, each)

    def drop(self, key: bytes) -> None:
        """What was set for a key is gone, or about to be in the store."""
        self._bounds.pop(key, None)

    def drop_all(self) -> None:
        """What was set is gone."""
        self._forget_memory()
        self._head = None

    def written(self, *, whole: bool) -> None:
        """What was in memory is about to be in the store; all of it if ``whole``."""
        self._read_to = None
        self._rows = None
        self._head = None
        if self._low is not None:
            self._start = min(self._start, time_bound(self._state, self._domain, self._low))
            self._low = None
        if whole:
            self._forget_memory()

    def will_write(self, time: int) -> None:
        """A timer at this time goes from memory to the store."""
        if self._low is None or time < self._low:
            self._low = time

    def restart(self) -> None:
        """The store went back to what it was, and nothing is in memory."""
        self.written(whole=True)
        self._start = time_bound(self._state, self._domain, I64_MIN)

    def first(self) -> tuple[int, bytes] | None:
        """Time and key of the earliest timer; of equal ones, by key group, then key."""
        first, stored = self._first_held(), self._first_stored()
        if stored is not None:
            time, group, key, _, _, _ = stored
            if first is None or (time, (group, key)) <= first:
                return time, key
        if first is None:
            return None
        time, (_, key) = first
        return time, key

    def read_due(self, up_to: int, most: int) -> list[DueKey]:
        """Keys with timers in the store at or before ``up_to``, about ``most`` timers."""
        if self._residence.is_all_erased(self._state):
            return []
        keys = self._read_ahead(up_to, most)
        if not keys:
            self.read_on()
        return keys

    def _read_ahead(self, up_to: int, left: int) -> list[DueKey]:
        """Keys in the order of their first timers, read in one pass; all if ``left`` are enough."""
        residence, state, domain = self._residence, self._state, self._domain
        end = row_after(state, domain, up_to)
        found: dict[bytes, list[StoredTimer] | None] = {}
        for row, payload in self._round.store.iterate(self._start, end):
            stored = stored_timer(row)
            time, _, key, window, family, tag, name = stored
            if left <= 0 and found:
                self._read_to = row
                return _cut(found, time, key)
            left -= 1
            taken = residence.taken_of(state, key)
            if taken is None:
                if key not in found and not self._is_hidden(stored[:6]):
                    found[key] = None
            elif (domain, window, family, tag) not in taken:
                timer = (time, window, family, tag, payload, row, name)
                timers = found.get(key)
                if timers is None:
                    found[key] = [timer]
                else:
                    timers.append(timer)
        self._read_to = end
        return [DueKey(key, timers, up_to) for key, timers in found.items()]

    def read_on(self) -> None:
        """All timers that ``read_due`` gave have fired, or their keys have scopes."""
        if self._read_to is not None:  # else something was written, perhaps before it
            self._start = max(self._start, self._read_to)
            self._read_to = self._rows = self._head = None

    def count(self) -> int:
        """How many timers there are; passes over each row that the store has of them."""
        residence, state, domain = self._residence, self._state, self._domain
        held = (residence.unwritten_timers(state, key, domain) for key in self._bounds)
        count = sum(timers.held() for timers in held if timers is not None)
        if residence.is_all_erased(state):
            return count
        rows = self._round.store.iterate_rows(self._start, time_domain_end(state, domain))
        differ = set(owners_in_time(residence.keys_that_differ(state, domain)))
        if not differ:
            return count + sum(1 for _ in rows)
        return count + sum(
            owner_of_time_row(row) not in differ or not self._is_hidden(key_of_time_row(row))
            for row in rows
        )

    def _list(self, time: int, key: bytes) -> None:
        self._bounds[key] = time
        self._listed += 1
        keys = self._keys.get(time)
        if keys is not None:
            keys.append(key)
        elif time in self._fronts:
            heappush(self._fronts[time], (key_group(key), key))
        else:
            self._keys[time] = [key]
            heappush(self._times, time)

    def _forget_memory(self) -> None:
        self._bounds: dict[bytes, int] = {}
        self._keys: dict[int, list[bytes]] = {}
        self._times: list[int] = []
        self._listed = 0
        self._fronts: dict[int, list[Order]] = {}

    def _is_first(self, time: int, key: bytes) -> bool:
        """Whether the first timer of a key in memory has this time; else it is listed again."""
        timers = self._residence.unwritten_timers(self._state, key, self._domain)
        actual = timers.next_held() if timers is not None else None
        if actual == time:
            return True
        del self._bounds[key]
        if actual is not None:
            self._list(actual, key)
        return False

    def _first_held(self) -> tuple[int, Order] | None:
        """The time of the earliest timer in memory, and whose it is."""
        times, bounds = self._times, self._bounds
        while times:
            time = times[0]
            front = self._fronts.get(time)
            if front is None:
                front = self._open(time)
            while front:
                order = front[0]
                key = order[1]
                if bounds.get(key) == time and self._is_first(time, key):
                    return time, order
                heappop(front)
                self._listed -= 1
            heappop(times)
            del self._fronts[time]
        return None

    def _open(self, time: int) -> list[Order]:
        """Makes a heap of a list, of what counts in it."""
        keys, bounds = self._keys.pop(time), self._bounds
        front = [(key_group(key), key) for key in {key for key in keys if bounds.get(key) == time}]
        heapify(front)
        self._fronts[time] = front
        self._listed -= len(keys) - len(front)
        return front

    def _first_stored(self) -> TimerKey | None:
        head = self._head
        if self._residence.is_all_erased(self._state):
            return None
        while True:
            if head is None:
                head = self._head = self._next_row()
                if head is None:
                    return None
            if not self._is_hidden(head):
                return head
            head = None

    def _next_row(self) -> TimerKey | None:
        rows = self._rows
        if rows is None:
            end = time_domain_end(self._state, self._domain)
            rows = self._rows = self._round.store.iterate_rows(self._start, end)
        row = next(rows, None)
        if row is None:
            return None
        self._start = row
        return key_of_time_row(row)

    def _is_hidden(self, timer: TimerKey) -> bool:
        _, _, key, window, family, tag = timer
        residence, state = self._residence, self._state
        if residence.is_erased(state, key):
            return True
        timers = residence.unwritten_timers(state, key, self._domain)
        if timers is not None:
            return timers.has_changed(window, (family, tag))
        taken = residence.taken_of(state, key)
        return taken is not None and (self._domain, window, family, tag) in taken


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
