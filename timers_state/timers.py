"""The timers of a key: by tag, so that setting replaces; by time, so that they fire in order.

Both indexes are rows of one batch, so the store always has a timer in both or in neither. In memory
the heap is made only when timers are asked for, so that a key whose timers are set over and over
pays for a dict entry each time and no more.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import repeat
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from timers_state.keys import (
    I64_MAX,
    I64_MIN,
    OWNER_OFFSET_IN_TIME,
    Domain,
    decode_i64,
    encode_i64,
    owner_in_time,
    prefix_end,
    tag_prefix,
    time_bound,
    time_domain_end,
    time_row,
    timer_name,
    timer_of_tag_row,
    timer_of_time_row,
    window_prefix,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timers_state.store import Batch, Store

TIMER_BYTES: Final = 320
"""What a timer costs in memory beside its payload."""


class Timer(NamedTuple):
    """A timer that is set. Timers of a key fire in the order of these fields."""

    time: int
    window: bytes
    family: bytes
    tag: bytes
    payload: bytes


Entry = tuple[int, bytes, bytes, bytes, bytes]
"""The fields of a ``Timer``; making a plain tuple takes a third of the time."""


class Holder(Protocol):
    """What timers need of the scope that they belong to; ``room`` and ``lease`` as for cells."""

    room: int
    state_id: int
    key: bytes

    @property
    def group(self) -> int:
        """The key group of the key."""

    def lease(self) -> None:
        """Finds room, if need be by writing out."""

    def reach(self) -> Store:
        """The store."""

    def tag_owner(self) -> bytes:
        """Prefix of the tag rows of the key."""


class Timers:
    """The timers of one key that follow one clock.

    ``_set`` has, per window, what was set since the last writing, and None for what was cleared or
    fired while the store may have it: what is named there counts instead of the store's.
    """

    __slots__ = (
        "__weakref__",
        "_exhausted",
        "_head",
        "_heap",
        "_heap_limit",
        "_rows",
        "_scope",
        "_set",
        "_start",
        "_stored",
        "domain",
    )

    def __init__(self, scope: Holder, domain: Domain, stored: bool) -> None:
        self._scope = scope
        self.domain = domain
        self._set: dict[bytes, dict[tuple[bytes, bytes], Entry | None]] = {}
        self._heap: list[Entry] | None = None
        self._heap_limit = 0
        self._stored = stored
        self._start: bytes | None = None
        self._rows: Iterator[tuple[bytes, bytes]] | None = None
        self._head: Entry | None = None
        self._exhausted = False

    def set(
        self, time: int, family: bytes, tag: bytes = b"", window: bytes = b"", payload: bytes = b""
    ) -> None:
        """Sets the timer (family, dynamic tag) of a window to a time; one that is set is replaced.

        Args:
            time: when it fires, in the unit of the caller.
            family: which of the declared timers it is.
            tag: the dynamic tag.
            window: the window it belongs to.
            payload: comes back when the timer fires.

        Raises:
            ValueError: the time does not fit into 64 bits.
        """
        if not I64_MIN <= time <= I64_MAX:
            encode_i64(time)
        entry = (time, window, family, tag, payload)
        timers = self._set.get(window)
        if timers is None:
            timers = self._set[window] = {}
        ident = (family, tag)
        count = len(timers)
        before = timers.get(ident)
        timers[ident] = entry
        scope = self._scope
        scope.room -= len(payload) - (len(before[4]) if before is not None else 0)
        if len(timers) != count:
            scope.room -= TIMER_BYTES
        if self._heap is not None:
            self._push(entry)
        if scope.room < 0:
            scope.lease()

    def clear(self, family: bytes, tag: bytes = b"", window: bytes = b"") -> None:
        """Makes sure that a timer does not fire. The store is not asked."""
        self._take_out(window, (family, tag))
        if self._scope.room < 0:
            self._scope.lease()

    def time_of(self, family: bytes, tag: bytes = b"", window: bytes = b"") -> int | None:
        """When a timer fires, None if it is not set."""
        timers = self._set.get(window)
        if timers is not None and (family, tag) in timers:
            entry = timers[family, tag]
            return None if entry is None else entry[0]
        if not self._stored:
            return None
        prefix = tag_prefix(self._scope.tag_owner(), window, self.domain)
        time = self._scope.reach().get(prefix + timer_name(family, tag))
        return None if time is None else decode_i64(time)

    def next_time(self) -> int | None:
        """When the first timer fires, None if none is set."""
        first = self._first()
        return None if first is None else first[0]

    def pop_due(self, up_to: int) -> Timer | None:
        """Takes out the first timer whose time is at most ``up_to``; None if there is none.

        Timers that are set between two calls are considered in the second.
        """
        first = self._first() if self._stored else self._first_held()
        if first is None or first[0] > up_to:
            return None
        self._take_out(first[1], (first[2], first[3]))
        if self._scope.room < 0:
            self._scope.lease()
        return tuple.__new__(Timer, first)

    def due(self, up_to: int) -> Iterator[Timer]:
        """Takes out and yields timers in order, one by one, as long as ``pop_due`` has one."""
        while (timer := self.pop_due(up_to)) is not None:
            yield timer

    def clear_window(self, window: bytes) -> None:
        """Clears every timer of a window; reads their rows if there may be some."""
        scope = self._scope
        timers = self._set.pop(window, None)
        for entry in (timers or {}).values():
            scope.room += TIMER_BYTES + (len(entry[4]) if entry is not None else 0)
        if self._stored:
            prefix = tag_prefix(scope.tag_owner(), window, self.domain)
            for row in scope.reach().iterate_rows(prefix, prefix_end(prefix)):
                self._take_out(window, timer_of_tag_row(row, len(prefix)))
        if scope.room < 0:
            scope.lease()

    def spill(self, batch: Batch, store: Store) -> None:
        """Adds to ``batch`` what differs from ``store``, and lets go of everything in memory."""
        for window, timers in self._set.items():
            self._write(batch, store, window, timers)
        self._stored = self._stored or bool(self._set)
        self.drop()

    def drop(self) -> None:
        """Lets go of everything in memory, unwritten."""
        self._set = {}
        self._heap = None
        self._rows = None
        self._head = None
        self._exhausted = False

    def _write(
        self,
        batch: Batch,
        store: Store,
        window: bytes,
        timers: dict[tuple[bytes, bytes], Entry | None],
    ) -> None:
        scope = self._scope
        domain = self.domain
        state_id = scope.state_id
        prefix = tag_prefix(scope.tag_owner(), window, domain)
        place = window_prefix(owner_in_time(scope.group, scope.key), window)
        named = sorted((timer_name(*ident), entry) for ident, entry in timers.items())
        rows = [prefix + name for name, _ in named]
        old_times = store.multi_get(rows) if self._stored else repeat(None)
        for row, (name, entry), old in zip(rows, named, old_times, strict=False):
            if old is not None:
                batch.delete(time_row(state_id, domain, decode_i64(old), place, name))
                if entry is None:
                    batch.delete(row)
            if entry is not None:
                at = time_row(state_id, domain, entry[0], place, name)
                batch.put(row, encode_i64(entry[0]))
                batch.put(at, entry[4])
                if self._start is not None and at < self._start:
                    self._start = at

    def _take_out(self, window: bytes, ident: tuple[bytes, bytes]) -> None:
        scope = self._scope
        timers = self._set.get(window)
        if timers is None:
            if not self._stored:
                return
            timers = self._set[window] = {}
        if self._stored:
            count = len(timers)
            before = timers.get(ident)
            timers[ident] = None
            scope.room -= TIMER_BYTES if len(timers) != count else 0
            scope.room += len(before[4]) if before is not None else 0
            return
        before = timers.pop(ident, None)
        if before is not None:
            scope.room += TIMER_BYTES + len(before[4])
        if not timers:
            del self._set[window]

    def _push(self, entry: Entry) -> None:
        heap = self._heap
        if heap is None:
            return
        heappush(heap, entry)
        if len(heap) > self._heap_limit:
            self._heap = None

    def _first(self) -> Entry | None:
        held = self._first_held()
        if not self._stored:
            return held
        stored = self._first_stored()
        if held is None or stored is None:
            return stored if held is None else held
        return min(held, stored)

    def _first_held(self) -> Entry | None:
        heap = self._heap
        if heap is None:
            heap = [
                entry
                for timers in self._set.values()
                for entry in timers.values()
                if entry is not None
            ]
            heapify(heap)
            self._heap = heap
            self._heap_limit = 2 * len(heap) + 64
        while heap:
            entry = heap[0]
            timers = self._set.get(entry[1])
            if timers is not None and timers.get((entry[2], entry[3])) is entry:
                return entry
            heappop(heap)
        return None

    def _first_stored(self) -> Entry | None:
        while True:
            head = self._head
            if head is None:
                head = self._head = self._next_stored()
                if head is None:
                    return None
            timers = self._set.get(head[1])
            if timers is None or (head[2], head[3]) not in timers:
                return head
            self._head = None

    def _next_stored(self) -> Entry | None:
        if self._exhausted:
            return None
        scope = self._scope
        rows = self._rows
        if rows is None:
            end = time_domain_end(scope.state_id, self.domain)
            start = self._start or time_bound(scope.state_id, self.domain, I64_MIN)
            rows = self._rows = scope.reach().iterate(start, end)
        owner = owner_in_time(scope.group, scope.key)
        for row, payload in rows:
            self._start = row
            if row.startswith(owner, OWNER_OFFSET_IN_TIME):
                return (*timer_of_time_row(row, len(owner)), payload)
        self._exhausted = True
        self._rows = None
        return None
