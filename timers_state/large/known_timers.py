"""The timers that the store has of one key and domain, all of them known: the store is not read."""

from __future__ import annotations

from functools import lru_cache
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from timers_state.errors import StoreCorrupt
from timers_state.keys import (
    Domain,
    Family,
    encode_i64,
    escape_again,
    place_of_owner,
    state_prefix,
    time_domain_prefix,
    timer_name,
    window_prefix,
)
from timers_state.large.timer_rows import StoredTimers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from timers_state.keys import TimerIdent
    from timers_state.large.timer_rows import Change, Changes, Holder, TimerEntry
    from timers_state.store.store import Batch, Store

MOST_KNOWN: Final = 4096
"""A key with more timers than this is read from the store, in time order."""

KNOWN_BYTES: Final = 320
"""What a timer that is known costs in memory beside its payload."""

KnownEntry = tuple[int, bytes, bytes, bytes, bytes | None]
"""As ``TimerEntry``; the payload is None if it was not read yet."""


@lru_cache(maxsize=1024)
def _heads(state_id: int, domain: Domain) -> tuple[bytes, bytes, bytes]:
    """What the rows of a state and domain start with in both indexes, and the domain's byte."""
    tags = state_prefix(Family.TAGS, state_id)
    return time_domain_prefix(state_id, domain), tags, bytes((domain,))


class KnownTimers(StoredTimers):
    """Stored timers of a key, as ``StoredTimers``.

    The heap has entries without payloads; one counts if ``_entries`` has it at the same time.
    """

    __slots__ = (
        "_entries",
        "_heads",
        "_heap",
        "_scope",
        "count",
        "payload_bytes",
    )

    def __init__(
        self, scope: Holder, domain: Domain, entries: dict[bytes, dict[TimerIdent, KnownEntry]]
    ) -> None:
        self._scope = scope
        self._entries = entries
        self._heap: list[tuple[int, bytes, bytes, bytes]] | None = None
        self._heads = _heads(scope.state_id, domain)
        self.count = sum(map(len, entries.values()))
        self.payload_bytes = 0

    @override
    def first(self, changes: Changes, up_to: int) -> TimerEntry | None:
        heap = self._heap
        if heap is None:
            heap = [entry[:4] for known in self._entries.values() for entry in known.values()]
            heapify(heap)
            self._heap = heap
        while heap:
            time, window, family, tag = heap[0]
            ident = (family, tag)
            changed = changes.get(window)
            if changed is None or ident not in changed:
                known = self._entries.get(window)
                entry = None if known is None else known.get(ident)
                if known is not None and entry is not None and entry[0] == time:
                    return self._with_payload(entry, known)
            heappop(heap)
        return None

    @override
    def time_of(self, window: bytes, ident: TimerIdent) -> int | None:
        entry = self._entries.get(window, {}).get(ident)
        return None if entry is None else entry[0]

    @override
    def of_window(self, window: bytes) -> Iterable[tuple[TimerIdent, int]]:
        known = self._entries.get(window, {})
        return [(ident, entry[0]) for ident, entry in known.items()]

    @override
    def write(self, batch: Batch, store: Store, changes: Changes, stored: bool) -> None:
        for window, changed in changes.items():
            known = self._entries.get(window)
            if known is None:
                known = self._entries[window] = {}
            self._write(batch, escape_again(window), known, changed)
            if not known:
                del self._entries[window]

    def _write(
        self,
        batch: Batch,
        window: bytes,
        known: dict[TimerIdent, KnownEntry],
        changed: dict[TimerIdent, Change],
    ) -> None:
        """As ``write``, for an escaped window; there are no calls where they can be spared."""
        head, tag_head, domain = self._heads
        place = place_of_owner(self._scope.owner()) + window
        prefix = tag_head + place + domain
        for ident, change in changed.items():
            before = known.pop(ident, None)
            family, tag = ident
            name = escape_again(family) + tag
            if before is not None:
                time, _, _, _, known_payload = before
                self.count -= 1
                if known_payload:
                    self.payload_bytes -= len(known_payload)
                row = head + encode_i64(time) + place + name
                if isinstance(change, tuple):
                    batch.move_timer(row)  # the same row may be put again
                else:
                    batch.delete_timer(prefix + name, row)
            if isinstance(change, tuple):
                known[ident] = change
                time, _, _, _, payload = change
                stamp = encode_i64(time)
                batch.put_timer(prefix + name, stamp, head + stamp + place + name, payload)
                self._add(change)

    def _add(self, entry: TimerEntry) -> None:
        self.count += 1
        self.payload_bytes += len(entry[4])
        heap = self._heap
        if heap is not None:
            heappush(heap, entry[:4])
            if len(heap) > 2 * self.count + 64:
                self._heap = None

    def _with_payload(self, entry: KnownEntry, known: dict[TimerIdent, KnownEntry]) -> TimerEntry:
        time, window, family, tag, payload = entry
        if payload is None:
            place = window_prefix(place_of_owner(self._scope.owner()), window)
            row = self._heads[0] + encode_i64(time) + place + timer_name(family, tag)
            payload = self._scope.reach().get(row)
            if payload is None:
                message = f"the timer of row {row.hex()} is in one index and not in the other"
                raise StoreCorrupt(message)
            self.payload_bytes += len(payload)
        found = (time, window, family, tag, payload)
        if entry[4] is None:
            known[family, tag] = found
        return found
