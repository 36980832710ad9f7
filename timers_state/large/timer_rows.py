"""The timers of a key in the store, changed in both indexes at once.

They are read in time order (``TimerRows``), or all of them are known (``KnownTimers``).
"""

from __future__ import annotations

from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

from typing_extensions import override

from timers_state.cells.cell import Account
from timers_state.errors import StoreCorrupt
from timers_state.keys import (
    I64_MAX,
    I64_MIN,
    OWNER_OFFSET_IN_TIME,
    Domain,
    Family,
    TimerIdent,
    decode_i64,
    encode_i64,
    escape_again,
    place_of_owner,
    prefix_end,
    row_after,
    state_prefix,
    tag_owner,
    tag_prefix,
    time_bound,
    time_domain_end,
    time_domain_prefix,
    time_row,
    timer_name,
    timer_of_tag_row,
    timer_of_time_row,
    window_prefix,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from timers_state.store.store import Batch, Store

TimerEntry = tuple[int, bytes, bytes, bytes, bytes]
"""A timer: time, window, family, dynamic tag, payload."""

Change = TimerEntry | int | None
"""What becomes of a timer in the store: it is set; or it goes, from the time given if known."""

Changes = dict[bytes, dict[TimerIdent, Change]]
"""Changes by window."""

MOST_KNOWN: Final = 4096
"""A key with more timers than this is read from the store, in time order."""

KNOWN_BYTES: Final = 320
"""What a timer that is known costs in memory beside its payload."""

KnownEntry = tuple[int, bytes, bytes, bytes, bytes | None]
"""As ``TimerEntry``; the payload is None if it was not read yet."""


class TimerIndex(Protocol):
    """Finds timers across keys; see ``DueIndex``."""

    def note(self, time: int, key: bytes, *, alone: bool) -> None:
        """A timer of a key was set; ``alone``: the key has no other one in memory."""

    def drop(self, key: bytes) -> None:
        """What was set for a key is gone, or about to be in the store."""

    def will_write(self, time: int) -> None:
        """A timer at this time goes from memory to the store."""


class Holder(Account, Protocol):
    """What timers need of the scope that they belong to; see ``KeyScope``."""

    state_id: int
    key: bytes
    active: bool

    def index(self, domain: Domain) -> TimerIndex:
        """Where the timers of the domain are found across keys."""

    def take_stored_timers(self, domain: Domain) -> StoredTimers:
        """The timers of a domain that the store has."""

    def know_less(self) -> None:
        """The key has too many timers to know them all."""


class StoredTimers(Protocol):
    """The timers of one key that follow one clock, as the store has them."""

    __slots__ = ()

    def first(self, changes: Changes, up_to: int) -> TimerEntry | None:
        """The first timer of which ``changes`` says nothing; may be None if it is after ``up_to``.

        What ``changes`` names stays named until ``write``.
        """

    def time_of(self, window: bytes, ident: TimerIdent) -> int | None:
        """When a timer fires, None if it is not set."""

    def of_window(self, window: bytes) -> Iterable[tuple[TimerIdent, int]]:
        """The timers of a window and their times."""

    def write(self, batch: Batch, store: Store, changes: Changes, stored: bool) -> None:
        """Adds changes to ``batch``; ``stored`` says whether ``store`` may have timers of the key.

        The batch will be written before anything else is asked.
        """


class TimerRows(StoredTimers):
    """The rows of the timers of one key that follow one clock.

    Reading goes on where it stopped, so a timer that fired is not passed again; ``_start`` is a row
    at or below the first that counts.
    """

    __slots__ = (
        "_ahead",
        "_bound",
        "_bound_time",
        "_domain",
        "_exhausted",
        "_head",
        "_owner",
        "_rows",
        "_scope",
        "_start",
    )

    def __init__(self, scope: Holder, domain: Domain) -> None:
        self._scope = scope
        self._domain = domain
        self._owner = place_of_owner(scope.owner())
        self._start = time_bound(scope.state_id, domain, I64_MIN)
        self._bound_time = I64_MAX
        self._bound = time_domain_end(scope.state_id, domain)
        self._rewind()

    def _rewind(self) -> None:
        """Lets go of what was read, since the store has something else from now on."""
        self._rows: Iterator[tuple[bytes, bytes]] | None = None
        self._ahead: tuple[bytes, bytes] | None = None
        self._head: TimerEntry | None = None
        self._exhausted = False

    @override
    def first(self, changes: Changes, up_to: int) -> TimerEntry | None:
        # Rows of other keys are passed only up to there.
        while True:
            head = self._head
            if head is None:
                head = self._head = self._next(up_to)
                if head is None:
                    return None
            _, window, family, tag, _ = head
            changed = changes.get(window)
            if changed is None or (family, tag) not in changed:
                return head
            self._head = None

    @override
    def time_of(self, window: bytes, ident: TimerIdent) -> int | None:
        row = self._tag_prefix(window) + timer_name(*ident)
        time = self._scope.reach().get(row)
        return None if time is None else decode_i64(time)

    @override
    def of_window(self, window: bytes) -> Iterator[tuple[TimerIdent, int]]:
        prefix = self._tag_prefix(window)
        for row, time in self._scope.reach().iterate(prefix, prefix_end(prefix)):
            yield timer_of_tag_row(row, len(prefix)), decode_i64(time)

    @override
    def write(self, batch: Batch, store: Store, changes: Changes, stored: bool) -> None:
        # Reads the tag rows of the timers whose time in the store is not known, in key order.
        for window, changed in changes.items():
            prefix = self._tag_prefix(window)
            place = window_prefix(self._owner, window)
            named = sorted((timer_name(*ident), change) for ident, change in changed.items())
            if stored:
                self._remove(batch, store, prefix, place, named)
            for name, change in named:
                if isinstance(change, tuple):
                    time, _, _, _, payload = change
                    row = time_row(self._scope.state_id, self._domain, time, place + name)
                    batch.put_timer(prefix + name, encode_i64(time), row, payload)
                    self._start = min(self._start, row)
        self._rewind()

    def _remove(
        self,
        batch: Batch,
        store: Store,
        prefix: bytes,
        place: bytes,
        named: list[tuple[bytes, Change]],
    ) -> None:
        """Removes what the store has of timers that were set again or go."""
        unknown = [name for name, change in named if not isinstance(change, int)]
        times = iter(store.multi_get([prefix + name for name in unknown]))
        for name, change in named:
            if isinstance(change, int):
                time = change
            else:
                found = next(times)
                if found is None:
                    continue
                time = decode_i64(found)
            row = time_row(self._scope.state_id, self._domain, time, place + name)
            if isinstance(change, tuple):
                batch.move_timer(row)
            else:
                batch.delete_timer(prefix + name, row)

    def _next(self, up_to: int) -> TimerEntry | None:
        if self._exhausted:
            return None
        if up_to != self._bound_time:
            self._bound_time = up_to
            self._bound = row_after(self._scope.state_id, self._domain, up_to)
        bound = self._bound
        if self._ahead is not None and self._ahead[0] >= bound:
            return None
        rows = self._rows
        if rows is None:
            end = time_domain_end(self._scope.state_id, self._domain)
            rows = self._rows = self._scope.reach().iterate(self._start, end)
        owner = self._owner
        ahead, self._ahead = self._ahead, None
        for row, payload in rows if ahead is None else chain((ahead,), rows):
            self._start = row
            if row >= bound:
                self._ahead = (row, payload)
                return None
            if row.startswith(owner, OWNER_OFFSET_IN_TIME):
                time, window, family, tag = timer_of_time_row(row, len(owner))
                return time, window, family, tag, payload
        self._exhausted = True
        self._rows = None
        return None

    def _tag_prefix(self, window: bytes) -> bytes:
        return tag_prefix(tag_owner(self._scope.owner()), window, self._domain)


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
                self.count += 1
                self.payload_bytes += len(payload)
                if self._heap is not None:
                    heappush(self._heap, change[:4])
                    if len(self._heap) > 2 * self.count + 64:
                        self._heap = None

    def _with_payload(self, entry: KnownEntry, known: dict[TimerIdent, KnownEntry]) -> TimerEntry:
        time, window, family, tag, payload = entry
        if payload is not None:
            return time, window, family, tag, payload
        place = window_prefix(place_of_owner(self._scope.owner()), window)
        row = self._heads[0] + encode_i64(time) + place + timer_name(family, tag)
        payload = self._scope.reach().get(row)
        if payload is None:
            message = f"the timer of row {row.hex()} is in one index and not in the other"
            raise StoreCorrupt(message)
        self.payload_bytes += len(payload)
        found = known[family, tag] = (time, window, family, tag, payload)
        return found
