"""Scopes and timers of an overlay with rounds: they keep what they wrote to be read again."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING
from weakref import ref

from timers_state.cells import RoundBag, Value
from timers_state.cells.cell import CELL_BYTES, GONE_MESSAGE, REST_ROOM
from timers_state.errors import StaleScope
from timers_state.image import IMAGE_BYTES, Image
from timers_state.keys import (
    I64_MAX,
    I64_MIN,
    Domain,
    decode_i64,
    encode_i64,
    prefix_end,
    timer_of_owned_tag_row,
    window_prefix,
)
from timers_state.known_timers import KNOWN_BYTES, MOST_KNOWN, KnownTimers
from timers_state.scope import SCOPE_BYTES, KeyScope
from timers_state.store import Batch, delete_rows
from timers_state.timer_rows import TimerRows
from timers_state.timers import TIMERS_BYTES, Timers

if TYPE_CHECKING:
    from timers_state.cells import Bag
    from timers_state.due_index import DueIndex
    from timers_state.known_timers import Known
    from timers_state.overlay import Overlay
    from timers_state.store import Store
    from timers_state.timer_rows import Ident, StoredTimers
    from timers_state.timers import Timer


class RoundScope(KeyScope):
    """A scope that keeps its content after a round: at rest, it is *clean* or *unwritten*.

    What a clean one has is also in the store; ``unwritten`` says that what was committed is not.
    An image is kept aside of an unwritten scope before anything of it changes.
    ``_loaded`` has the timers of the key that were read and not asked for yet, by domain.
    """

    __slots__ = ("_changed", "_loaded", "_many", "unwritten")

    def __init__(self, overlay: Overlay, state_id: int, key: bytes, stored: bool) -> None:
        super().__init__(overlay, state_id, key, stored)
        self._changed = overlay.changed_scopes()
        self._loaded: dict[Domain, dict[bytes, dict[Ident, Known]]] | None
        self._loaded = None if stored else {}
        self._many = False
        self.unwritten = False

    def bag(self, tag: bytes, window: bytes = b"") -> Bag:
        """See ``KeyScope``."""
        return self._cell(RoundBag, tag, window)

    def timers(self, domain: Domain) -> Timers:
        """See ``KeyScope``."""
        timers = self._timers.get(domain)
        if timers is None:
            if not self.active:
                self.lease()
                timers = self._timers.get(domain)
            if timers is None:
                timers = self._timers[domain] = RoundTimers(self, domain, self.stored)
                self.room -= TIMERS_BYTES
        return timers

    def wake(self) -> None:
        """See ``KeyScope``."""
        if self._resting is not None:
            super().wake()
        self.recent = True
        self._changed.append(self)
        if self.unwritten:
            if self._overlay is not None:
                self._overlay.keep_aside(self)
            self.unwritten = False

    def rest(self) -> int:
        """Ends a round without writing anything.

        Returns:
            What it costs in memory from now on; 0 if there is nothing to keep, and -1 if it has to
            be written: then it is as it was.
        """
        if self.before_spill is not None:
            return -1
        differs = self._let_empty_rest()
        if differs is None:
            return -1
        self.unwritten = differs
        self.active = False
        cost = self.leased - self.room
        self.room = REST_ROOM
        if differs or self.stored:
            return cost
        self._resting = [*(self._resting or ()), *map(ref, self._timers.values())]
        self._timers = {}
        return 0

    def _let_empty_rest(self) -> bool | None:
        """Whether something differs from the store; None if it cannot stay unwritten."""
        differs = self._erased is not None
        empty = None
        for window, cells in self._windows.items():
            for tag, cell in cells.items():
                if cell.is_new:
                    empty = [*(empty or ()), (window, tag)]
                elif cell.differs:
                    if not isinstance(cell, Value):
                        return None
                    differs = True
        for timers in self._timers.values():
            if timers.differs:
                differs = True
        if empty is not None:
            self._let_rest(empty)
            self.room += CELL_BYTES * len(empty)
        return differs

    def image(self) -> Image:
        """What of it is unwritten."""
        size = IMAGE_BYTES
        values = []
        for cells in self._windows.values():
            for cell in cells.values():
                if isinstance(cell, Value) and cell.differs:
                    image = cell.image()
                    values.append(image)
                    size += len(image[3] or b"")
        kept = []
        for timers in self._timers.values():
            if timers.differs:
                changes, cost = timers.image()
                kept.append(changes)
                size += cost
        erased = None if self._erased is None else frozenset(self._erased)
        return Image(self.stored, erased, values, kept, size)

    def restore(self, image: Image) -> None:
        """Takes over what was kept aside; for a new scope, to be settled."""
        self._erased = None if image.erased is None else set(image.erased)
        for kind, window, tag, content, base in image.values:
            cell = kind(self, tag, window, base)
            cell.restore(content)
            self._windows.setdefault(window, {})[tag] = cell
        for domain, changes, stored in image.timers:
            timers = RoundTimers(self, domain, stored)
            timers.restore(changes)
            self._timers[domain] = timers

    def settle(self, batch: Batch, store: Store) -> int:
        """Adds to ``batch`` what differs from ``store``, and becomes clean.

        Returns:
            What it costs in memory from now on; 0 if there is nothing to keep.
        """
        if self.before_spill is not None:
            self.before_spill()
        stored = self.stored
        count = 0 if stored else len(batch)
        for window in self._erased or ():
            prefix = window_prefix(self.owner(), window)
            delete_rows(store, batch, prefix, prefix_end(prefix))
        self._erased = None
        kept = 0
        empty = None
        for window, cells in self._windows.items():
            for tag, cell in cells.items():
                cost = cell.settle(batch, store)
                kept += cost
                if not cost:
                    empty = [*(empty or ()), (window, tag)]
        for timers in self._timers.values():
            kept += timers.settle(batch, store)
        if empty is not None:
            self._let_rest(empty)
        self.stored = stored or len(batch) > count
        self.active = False
        self.unwritten = False
        self.room = REST_ROOM
        return kept + SCOPE_BYTES if kept or self.stored else 0

    def spill(self, batch: Batch, store: Store) -> None:
        """See ``KeyScope``."""
        resting = self._resting
        super().spill(batch, store)
        if resting and self._resting is not None:
            self._resting += [found for found in resting if found() is not None]
        self._loaded = None if self.stored else {}

    def let_go(self, store: Store) -> None:
        """Lets go of everything in memory; only of a clean scope, so there is nothing to encode."""
        encode, self.before_spill = self.before_spill, None
        self.spill(Batch(0), store)
        self.before_spill = encode

    def index(self, domain: Domain) -> DueIndex:
        """Where the timers of the domain are found across keys."""
        if self._overlay is None:
            raise StaleScope(GONE_MESSAGE)
        return self._overlay.index_of(self.state_id, domain)

    def take_stored_timers(self, domain: Domain) -> KnownTimers | None:
        """The timers of a domain that the store has; None if the key has too many."""
        if self.stored and self._loaded is None and not self._many:
            self._load()
        if self._many:
            return None
        loaded = self._loaded.pop(domain, {}) if self._loaded is not None else {}
        return KnownTimers(self, domain, loaded)

    def know_less(self) -> None:
        """The key has too many timers to know them all."""
        self._many = True

    def _load(self) -> None:
        prefix = self.tag_owner()
        rows = list(islice(self.reach().iterate(prefix, prefix_end(prefix)), MOST_KNOWN + 1))
        self._many = len(rows) > MOST_KNOWN
        loaded: dict[Domain, dict[bytes, dict[Ident, Known]]] = {}
        self._loaded = loaded
        if self._many:
            return
        for row, time in rows:
            window, domain, family, tag = timer_of_owned_tag_row(row, len(prefix))
            entry = (decode_i64(time), window, family, tag, None)
            loaded.setdefault(domain, {}).setdefault(window, {})[family, tag] = entry
        self.room -= KNOWN_BYTES * len(rows)

    def _domains(self, window: bytes) -> list[Domain]:
        if self.stored and self._loaded is None and not self._many:
            self._load()
        if self._many:
            return super()._domains(window)
        loaded = self._loaded or {}
        return [*self._timers, *(domain for domain in loaded if window in loaded[domain])]

    def _let_rest(self, places: list[tuple[bytes, bytes]]) -> None:
        """Lets go of cells that are as good as new ones; somebody may still have them."""
        resting = [found for found in self._resting or () if found() is not None]
        for window, tag in places:
            cells = self._windows[window]
            resting.append(ref(cells.pop(tag)))
            if not cells:
                del self._windows[window]
        self._resting = resting


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
        # Before the change, since that may write everything out: the index has to know then.
        self._index.note(time, scope.key, scope)
        super().set(time, family, tag, window, payload)

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
