"""The timers of a key: by tag, so that setting replaces; by time, so that they fire in order.

In memory the heap is made only when timers are asked for, so that a key whose timers are set over
and over pays for a dict entry each time and no more.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

from timers_state.keys import I64_MAX, I64_MIN, Domain, TimerIdent, encode_i64
from timers_state.large.timer_rows import (
    KNOWN_BYTES,
    MOST_KNOWN,
    Change,
    Changes,
    Holder,
    KnownTimers,
    StoredTimers,
    TimerEntry,
    TimerRows,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from timers_state.large.image import TimersImage
    from timers_state.store.store import Batch, Store

TIMER_BYTES: Final = 320
"""What a timer costs in memory beside its payload."""

NEVER: Final = I64_MIN - 1
"""A time before all times."""

TIMERS_BYTES: Final = 480
"""What the timers of a domain cost without any."""


class Timer(NamedTuple):
    """A timer that is set. Timers of a key fire in the order of these fields."""

    time: int
    window: bytes
    family: bytes
    tag: bytes
    payload: bytes


class Timers:
    """The timers of one key that follow one clock; they are found across keys, too.

    ``_changes`` has, per window, what was set since the last writing, and what was cleared or fired
    while the store may have it: what is named there counts instead of the store's. But for that,
    the store has nothing up to ``_none_until``.
    """

    __slots__ = (
        "__weakref__",
        "_changes",
        "_heap",
        "_heap_limit",
        "_index",
        "_none_until",
        "_rows",
        "_scope",
        "_stored",
        "domain",
    )

    def __init__(self, scope: Holder, domain: Domain, stored: bool) -> None:
        self._scope = scope
        self.domain = domain
        self._changes: Changes = {}
        self._heap: list[TimerEntry] | None = None
        self._heap_limit = 0
        self._stored = stored
        self._none_until = NEVER
        self._rows: StoredTimers | None = None
        self._index = scope.index(domain)

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
        scope = self._scope
        if scope.room < 0:
            scope.lease()
        entry = (time, window, family, tag, payload)
        changes = self._changes
        changed = changes.get(window)
        if changed is None:
            changed = changes[window] = {}
        ident = (family, tag)
        before = changed.get(ident)
        if before is not None:
            scope.room -= len(payload) - (len(before[4]) if isinstance(before, tuple) else 0)
        else:
            scope.room -= len(payload) + (0 if ident in changed else TIMER_BYTES)
        changed[ident] = entry
        heap = self._heap
        if heap is not None:
            heappush(heap, entry)
            if len(heap) > self._heap_limit:
                self._heap = None
        self._index.note(time, scope.key, alone=len(changed) == 1 and len(changes) == 1)
        if scope.room < 0:
            scope.lease()

    def clear(self, family: bytes, tag: bytes = b"", window: bytes = b"") -> None:
        """Makes sure that a timer does not fire. The store is not asked."""
        if self._scope.room < 0:
            self._scope.lease()
        self._take_out(window, (family, tag), None)
        if self._scope.room < 0:
            self._scope.lease()

    def time_of(self, family: bytes, tag: bytes = b"", window: bytes = b"") -> int | None:
        """When a timer fires, None if it is not set."""
        changed = self._changes.get(window)
        if changed is not None and (family, tag) in changed:
            change = changed[family, tag]
            return change[0] if isinstance(change, tuple) else None
        time = self._of_store().time_of(window, (family, tag)) if self._stored else None
        self._pay()
        return time

    def next_time(self) -> int | None:
        """When the first timer fires, None if none is set."""
        first = self._first(I64_MAX)
        self._pay()
        return None if first is None else first[0]

    def pop_due(self, up_to: int) -> Timer | None:
        """Takes out the first timer whose time is at most ``up_to``; None if there is none.

        Timers that are set between two calls are considered in the second.
        """
        if self._scope.room < 0:
            self._scope.lease()
        first = self._first(up_to)  # time, window, family, tag, payload
        if first is None or first[0] > up_to:
            self._pay()
            return None
        self._take_out(first[1], (first[2], first[3]), first[0])
        if self._scope.room < 0:
            self._scope.lease()
        return tuple.__new__(Timer, first)

    def next_held(self) -> int | None:
        """When the first of the timers fires that were set since the last writing."""
        first = self._first_held()
        return None if first is None else first[0]

    def held(self) -> int:
        """How many timers were set since the last writing, and are still set."""
        return sum(
            isinstance(change, tuple)
            for changed in self._changes.values()
            for change in changed.values()
        )

    def has_changed(self, window: bytes, ident: TimerIdent) -> bool:
        """Whether what the store has of a timer does not count anymore."""
        changed = self._changes.get(window)
        return changed is not None and ident in changed

    def due(self, up_to: int) -> Iterator[Timer]:
        """Takes out and yields timers in order, one by one, as long as ``pop_due`` has one."""
        while (timer := self.pop_due(up_to)) is not None:
            yield timer

    def is_any_set(self, window: bytes) -> bool:
        """Whether a timer of a window is set."""
        changed = self._changes.get(window, {})
        if any(isinstance(change, tuple) for change in changed.values()):
            return True
        if not self._stored:
            return False
        return any(ident not in changed for ident, _ in self._of_store().of_window(window))

    def is_gone(self, window: bytes, ident: TimerIdent, time: int) -> None:
        """The store's timer, for that time, does not count anymore."""
        self._take_out(window, ident, time)
        if self._scope.room < 0:
            self._scope.lease()

    def none_until(self, time: int) -> None:
        """The store has no timer at or before ``time``, but those known to be gone."""
        self._none_until = time

    def clear_window(self, window: bytes) -> None:
        """Clears every timer of a window; reads their rows if there may be some."""
        scope = self._scope
        if scope.room < 0:
            scope.lease()
        for change in self._changes.pop(window, {}).values():
            scope.room += TIMER_BYTES + _payload_bytes(change)
        if self._stored:
            for ident, time in self._of_store().of_window(window):
                self._take_out(window, ident, time)
        if scope.room < 0:
            scope.lease()

    def spill(self, batch: Batch, store: Store) -> None:
        """Adds to ``batch`` what differs from ``store``, and lets go of everything in memory.

        What the store has is not read for that.
        """
        if self._changes:
            self._tell_index()
            rows = self._rows or TimerRows(self._scope, self.domain)
            rows.write(batch, store, self._changes, self._stored)
            self._stored = True
        self.drop()

    def settle(self, batch: Batch, store: Store) -> int:
        """Adds to ``batch`` what differs from ``store``; returns what it costs from now on."""
        if self._changes:
            self._tell_index()
            self._of_store().write(batch, store, self._changes, self._stored)
            self._stored = True
            self._none_until = NEVER
            self._changes = {}
            self._heap = None
        rows = self._rows
        if type(rows) is not KnownTimers:
            return TIMERS_BYTES
        if rows.count > MOST_KNOWN:
            self._scope.know_less()
            self._rows = None
            return TIMERS_BYTES
        return TIMERS_BYTES + KNOWN_BYTES * rows.count + rows.payload_bytes

    @property
    def differs(self) -> bool:
        """Whether something may differ from the store."""
        return bool(self._changes)

    def add_images(self, images: list[TimersImage]) -> int:
        """Adds what differs from the store, for ``restore``; returns what that costs in memory."""
        count = 0
        for window, changed in self._changes.items():
            images.append((self.domain, self._stored, window, tuple(changed.items())))
            count += len(changed)
        return count * TIMER_BYTES

    def restore(self, window: bytes, changes: Iterable[tuple[TimerIdent, Change]]) -> None:
        """Takes over what was kept aside; for new timers."""
        self._changes[window] = dict(changes)

    def drop(self) -> None:
        """Lets go of everything in memory, unwritten."""
        self._changes = {}
        self._heap = None
        self._none_until = NEVER
        self._rows = None

    def _of_store(self) -> StoredTimers:
        rows = self._rows
        if rows is None:
            rows = self._rows = self._scope.take_stored_timers(self.domain)
        return rows

    def _tell_index(self) -> None:
        index = self._index
        index.drop(self._scope.key)
        for changed in self._changes.values():
            for change in changed.values():
                if isinstance(change, tuple):
                    index.will_write(change[0])

    def _pay(self) -> None:
        """Looking may have put timers into memory."""
        if self._scope.room < 0 and self._scope.active:
            self._scope.lease()

    def _take_out(self, window: bytes, ident: TimerIdent, time: int | None) -> None:
        """Takes a timer out; ``time`` is when it fires in the store, if it is there and known."""
        scope = self._scope
        changed = self._changes.get(window)
        if not self._stored:
            if changed is not None and ident in changed:
                scope.room += TIMER_BYTES + _payload_bytes(changed.pop(ident))
                if not changed:
                    del self._changes[window]
            return
        if changed is None:
            changed = self._changes[window] = {}
        if ident not in changed:
            changed[ident] = time
            scope.room -= TIMER_BYTES
            return
        before = changed[ident]
        if isinstance(before, tuple):
            changed[ident] = None
            scope.room += len(before[4])

    def _first(self, up_to: int) -> TimerEntry | None:
        held = self._first_held()
        if not self._stored:
            return held
        if up_to <= self._none_until:
            return held
        stored = self._of_store().first(self._changes, up_to)
        if held is None or stored is None:
            return stored if held is None else held
        return min(held, stored)

    def _first_held(self) -> TimerEntry | None:
        heap = self._heap
        if heap is None:
            heap = [
                change
                for changed in self._changes.values()
                for change in changed.values()
                if isinstance(change, tuple)
            ]
            heapify(heap)
            self._heap = heap
            self._heap_limit = 2 * len(heap) + 64
        while heap:
            entry = heap[0]  # time, window, family, tag, payload
            changed = self._changes.get(entry[1])
            if changed is not None and changed.get((entry[2], entry[3])) is entry:
                return entry
            heappop(heap)
        return None


def _payload_bytes(change: Change) -> int:
    # The last part of a change is the payload.
    return len(change[4]) if isinstance(change, tuple) else 0
