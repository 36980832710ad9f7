"""Timers of an overlay with rounds: what they wrote stays known, and they are found across keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timers_state.keys import I64_MAX, I64_MIN, Domain, encode_i64
from timers_state.known_timers import KNOWN_BYTES, MOST_KNOWN, KnownTimers
from timers_state.timer_rows import TimerRows
from timers_state.timers import NEVER, TIMER_BYTES, TIMERS_BYTES, Timers

if TYPE_CHECKING:
    from timers_state.round_scope import RoundScope
    from timers_state.store import Batch, Store
    from timers_state.timer_rows import StoredTimers
    from timers_state.timers import Timer


class RoundTimers(Timers):
    """Timers of one key that are also found across keys."""

    __slots__ = ("_index", "_round_scope")

    def __init__(self, scope: RoundScope, domain: Domain, stored: bool) -> None:
        super().__init__(scope, domain, stored)
        self._round_scope = scope
        self._index = scope.index(domain)

    def set(
        self, time: int, family: bytes, tag: bytes = b"", window: bytes = b"", payload: bytes = b""
    ) -> None:
        """See ``Timers``."""
        if not I64_MIN <= time <= I64_MAX:
            encode_i64(time)
        scope = self._round_scope
        if scope.room < 0:
            scope.lease()
        # As in ``Timers``, whose call is spared: this is what most keys do for each element.
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
        if self._heap is not None:
            self._push(entry)
        self._index.note(time, scope.key, alone=len(changed) == 1 and len(changes) == 1)
        if scope.room < 0:
            scope.lease()

    def clear(self, family: bytes, tag: bytes = b"", window: bytes = b"") -> None:
        """See ``Timers``."""
        if self._scope.room < 0:
            self._scope.lease()
        super().clear(family, tag, window)

    def clear_window(self, window: bytes) -> None:
        """See ``Timers``."""
        if self._scope.room < 0:
            self._scope.lease()
        super().clear_window(window)

    def time_of(self, family: bytes, tag: bytes = b"", window: bytes = b"") -> int | None:
        """See ``Timers``."""
        time = super().time_of(family, tag, window)
        self._pay()
        return time

    def next_time(self) -> int | None:
        """See ``Timers``."""
        time = super().next_time()
        self._pay()
        return time

    def pop_due(self, up_to: int) -> Timer | None:
        """See ``Timers``."""
        if self._scope.room < 0:
            self._scope.lease()
        timer = super().pop_due(up_to)
        self._pay()
        return timer

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
        if not isinstance(rows, KnownTimers):
            return TIMERS_BYTES
        if rows.count > MOST_KNOWN:
            self._round_scope.know_less()
            self._rows = None
            return TIMERS_BYTES
        return TIMERS_BYTES + KNOWN_BYTES * rows.count + rows.payload_bytes

    def spill(self, batch: Batch, store: Store) -> None:
        """See ``Timers``; does not look for what it does not know."""
        if self._changes:
            self._tell_index()
            rows = self._rows or TimerRows(self._scope, self.domain)
            rows.write(batch, store, self._changes, self._stored)
            self._stored = True
        self.drop()

    def drop(self) -> None:
        """See ``Timers``."""
        super().drop()
        self._rows = None

    def _find_stored(self) -> StoredTimers:
        known = self._round_scope.take_stored_timers(self.domain)
        return TimerRows(self._scope, self.domain) if known is None else known

    def _tell_index(self) -> None:
        index = self._index
        index.drop(self._round_scope.key)
        for changed in self._changes.values():
            for change in changed.values():
                if isinstance(change, tuple):
                    index.will_write(change[0])

    def _pay(self) -> None:
        """Looking may have put timers into memory."""
        if self._scope.room < 0 and self._round_scope.active:
            self._scope.lease()
