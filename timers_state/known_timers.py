"""The timers that the store has of one key and domain, all of them known: the store is not read."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from timers_state.errors import StoreCorrupt
from timers_state.keys import (
    Domain,
    encode_i64,
    owner_in_time,
    tag_prefix,
    time_row,
    timer_name,
    window_prefix,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from timers_state.store import Batch, Store
    from timers_state.timer_rows import Change, Changes, Entry, Holder, Ident

MOST_KNOWN: Final = 4096
"""A key with more timers than this is read from the store, in time order."""

KNOWN_BYTES: Final = 320
"""What a timer that is known costs in memory beside its payload."""

Known = tuple[int, bytes, bytes, bytes, bytes | None]
"""As ``Entry``; the payload is None if it was not read yet."""


class KnownTimers:
    """Stored timers of a key, as ``StoredTimers``.

    An entry of the heap counts if it is the object in ``_entries``.
    """

    __slots__ = (
        "_domain",
        "_entries",
        "_heap",
        "_owner",
        "_scope",
        "_tag_owner",
        "count",
        "payload_bytes",
    )

    def __init__(
        self, scope: Holder, domain: Domain, entries: dict[bytes, dict[Ident, Known]]
    ) -> None:
        self._scope = scope
        self._domain = domain
        self._entries = entries
        self._heap: list[Known] | None = None
        self._owner = owner_in_time(scope.group, scope.key)
        self._tag_owner = scope.tag_owner()
        self.count = sum(map(len, entries.values()))
        self.payload_bytes = 0

    def first(self, changes: Changes, up_to: int) -> Entry | None:
        """See ``StoredTimers``."""
        del up_to
        heap = self._heap
        if heap is None:
            heap = [entry for known in self._entries.values() for entry in known.values()]
            heapify(heap)
            self._heap = heap
        while heap:
            entry = heap[0]
            ident = (entry[2], entry[3])
            changed = changes.get(entry[1])
            if changed is None or ident not in changed:
                known = self._entries.get(entry[1])
                if known is not None and known.get(ident) is entry:
                    return self._with_payload(entry, known)
            heappop(heap)
        return None

    def time_of(self, window: bytes, ident: Ident) -> int | None:
        """See ``StoredTimers``."""
        entry = self._entries.get(window, {}).get(ident)
        return None if entry is None else entry[0]

    def of_window(self, window: bytes) -> Iterable[tuple[Ident, int]]:
        """See ``StoredTimers``."""
        known = self._entries.get(window, {})
        return [(ident, entry[0]) for ident, entry in known.items()]

    def write(self, batch: Batch, store: Store, changes: Changes, stored: bool) -> None:
        """See ``StoredTimers``; nothing is read."""
        del store, stored
        for window, changed in changes.items():
            known = self._entries.get(window)
            if known is None:
                known = self._entries[window] = {}
            place = window_prefix(self._owner, window)
            prefix = tag_prefix(self._tag_owner, window, self._domain)
            for ident, change in changed.items():
                name = timer_name(*ident)
                self._write(batch, prefix + name, place + name, known.pop(ident, None), change)
                if isinstance(change, tuple):
                    known[ident] = change
                    self._add(change)
            if not known:
                del self._entries[window]

    def rewind(self) -> None:
        """See ``StoredTimers``. What is known stays known."""

    def _write(
        self, batch: Batch, tag_row: bytes, place_and_name: bytes, before: Known | None, now: Change
    ) -> None:
        state_id, domain = self._scope.state_id, self._domain
        if before is not None:
            self.count -= 1
            self.payload_bytes -= len(before[4] or b"")
            if not isinstance(now, tuple):
                batch.delete(tag_row)
                batch.delete(time_row(state_id, domain, before[0], place_and_name))
                return
            if before[0] != now[0]:
                batch.delete(time_row(state_id, domain, before[0], place_and_name))
        if isinstance(now, tuple):
            batch.put(tag_row, encode_i64(now[0]))
            batch.put(time_row(state_id, domain, now[0], place_and_name), now[4])

    def _add(self, entry: Entry) -> None:
        self.count += 1
        self.payload_bytes += len(entry[4])
        heap = self._heap
        if heap is not None:
            heappush(heap, entry)
            if len(heap) > 2 * self.count + 64:
                self._heap = None

    def _with_payload(self, entry: Known, known: dict[Ident, Known]) -> Entry:
        time, window, family, tag, payload = entry
        if payload is None:
            place = window_prefix(self._owner, window) + timer_name(family, tag)
            row = time_row(self._scope.state_id, self._domain, time, place)
            payload = self._scope.reach().get(row)
            if payload is None:
                message = f"the timer of row {row.hex()} is in one index and not in the other"
                raise StoreCorrupt(message)
            self.payload_bytes += len(payload)
        found = (time, window, family, tag, payload)
        if entry[4] is None:
            known[family, tag] = found
            if self._heap:
                self._heap[0] = found
        return found
