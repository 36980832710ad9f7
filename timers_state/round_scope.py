"""Scopes of an overlay with rounds: they keep what they hold from round to round."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar
from weakref import ref

from timers_state.cells import RoundBag
from timers_state.cells.cell import (
    CELL_BYTES,
    GONE_MESSAGE,
    NOTHING,
    REST_ROOM,
    TO_WRITE,
    UNWRITTEN,
)
from timers_state.errors import StaleScope
from timers_state.image import IMAGE_BYTES, Image
from timers_state.keys import (
    Domain,
    decode_i64,
    prefix_end,
    timer_of_owned_tag_row,
    window_prefix,
)
from timers_state.known_timers import KNOWN_BYTES, MOST_KNOWN, KnownTimers
from timers_state.round_timers import RoundTimers
from timers_state.scope import SCOPE_BYTES, KeyScope
from timers_state.store import Batch, delete_rows
from timers_state.timers import TIMERS_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timers_state.cells import Bag
    from timers_state.cells.cell import Cell
    from timers_state.due_index import DueIndex
    from timers_state.holdings import Holdings
    from timers_state.image import TimersImage, ValueImage
    from timers_state.known_timers import KnownEntry
    from timers_state.store import Store
    from timers_state.timer_rows import TimerIdent
    from timers_state.timers import Timers

C = TypeVar("C", bound="Cell")


class RoundScope(KeyScope):
    """A scope that keeps its content after a round: at rest, it is *clean* or *unwritten*.

    What a clean one has is also in the store; ``unwritten`` says that what was committed is not.
    An image is kept aside of an unwritten scope before anything of it changes.
    ``_loaded`` has the timers of the key that were read and not asked for yet, by domain.
    """

    __slots__ = ("_changed", "_loaded", "_many")

    def __init__(self, overlay: Holdings, state_id: int, key: bytes, stored: bool) -> None:
        super().__init__(overlay, state_id, key, stored)
        self._changed = overlay.changed_scopes()
        self._loaded: dict[Domain, dict[bytes, dict[TimerIdent, KnownEntry]]] | None
        self._loaded = None if stored else {}
        self._many = False

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

    def rest(self) -> int:
        """Ends a round without writing anything.

        Returns:
            What it costs in memory from now on; 0 if there is nothing to keep, and -1 if it has to
            be written: then it is as it was.
        """
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
                difference = cell.difference()
                if difference is UNWRITTEN:
                    differs = True
                elif difference is TO_WRITE:
                    return None
                elif difference is NOTHING:
                    empty = [*(empty or ()), (window, tag)]
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
        values: list[ValueImage] = []
        for cells in self._windows.values():
            for cell in cells.values():
                image = cell.image()
                if image is not None:
                    values.append(image)
                    if image[3]:
                        size += len(image[3])
        kept: list[TimersImage] = []
        for timers in self._timers.values():
            size += timers.add_images(kept)
        erased = None if self._erased is None else frozenset(self._erased)
        # Not by its name: there is one for each key of a round.
        return tuple.__new__(Image, (self.stored, erased, values, kept, size))

    def restore(self, image: Image) -> None:
        """Takes over what was kept aside; for a new scope, to be settled."""
        self._erased = None if image.erased is None else set(image.erased)
        for kind, window, tag, content, base in image.values:
            cell = kind(self, tag, window, base)
            cell.restore(content)
            self._windows.setdefault(window, {})[tag] = cell
        for domain, stored, window, changes in image.timers:
            timers = self._timers.get(domain)
            if timers is None:
                timers = self._timers[domain] = RoundTimers(self, domain, stored)
            timers.restore(window, changes)

    def settle(self, batch: Batch, store: Store) -> int:
        """Adds to ``batch`` what differs from ``store``, and becomes clean.

        Returns:
            What it costs in memory from now on; 0 if there is nothing to keep.
        """
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
        self.spill(Batch(0), store)

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
        (rows,) = self.reach().read_prefixes([prefix], MOST_KNOWN, sys.maxsize)
        self._many = rows is None
        self._take_loaded(rows or (), len(prefix))
        self.room -= KNOWN_BYTES * len(rows or ())

    def _take_loaded(self, rows: Sequence[tuple[bytes, bytes]], cut: int) -> None:
        loaded: dict[Domain, dict[bytes, dict[TimerIdent, KnownEntry]]] = {}
        self._loaded = loaded
        for row, time in rows:
            window, domain, family, tag = timer_of_owned_tag_row(row, cut)
            entry = (decode_i64(time), window, family, tag, None)
            loaded.setdefault(domain, {}).setdefault(window, {})[family, tag] = entry

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
