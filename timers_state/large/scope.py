"""Everything that is kept for one user key in one state, in memory until there is no room."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, Protocol, TypeVar
from weakref import ref

from timers_state.cells.bag import Bag
from timers_state.cells.cell import (
    CELL_BYTES,
    ENTRY_BYTES,
    GONE_OWNER,
    GONE_ROOM,
    NOTHING,
    REST_ROOM,
    TO_WRITE,
    UNWRITTEN,
    Cell,
)
from timers_state.cells.map import Map
from timers_state.cells.multimap import Multimap
from timers_state.cells.ordered_list import OrderedList
from timers_state.cells.set import Set
from timers_state.cells.value import Combining, Value
from timers_state.errors import KindMismatch
from timers_state.keys import (
    Domain,
    Family,
    decode_i64,
    key_group,
    owner_prefix,
    prefix_end,
    tag_owner,
    timer_of_owned_tag_row,
    window_prefix,
)
from timers_state.large.image import IMAGE_BYTES, Image
from timers_state.large.timer_rows import KNOWN_BYTES, MOST_KNOWN, KnownTimers, TimerRows
from timers_state.large.timers import TIMERS_BYTES, Timers
from timers_state.store.store import Batch, delete_rows

if TYPE_CHECKING:
    from timers_state.cells.cell import ValueImage
    from timers_state.keys import TimerIdent
    from timers_state.large.image import TimersImage
    from timers_state.large.timer_rows import KnownEntry, StoredTimers, TimerIndex
    from timers_state.store.store import Store

SCOPE_BYTES: Final = 640
"""What a scope without content costs in memory."""

C = TypeVar("C", bound=Cell)


class ScopeRound(Protocol):
    """What a scope needs of the running round."""

    store: Store
    changed: list[KeyScope]
    """Where scopes put themselves that become active."""


class ScopeRoom(Protocol):
    """Lends memory to scopes."""

    def lease(self, scope: KeyScope) -> None:
        """Makes the scope active and gives it room, from the budget or by writing everything."""


class ScopeOwner(Protocol):
    """What a scope needs of its overlay."""

    @property
    def running(self) -> ScopeRound:
        """The running round."""

    @property
    def room(self) -> ScopeRoom:
        """Lends memory."""

    def forget(self, state_id: int, key: bytes) -> None:
        """Ends the life of a key: its state and timers are gone, and its scope is stale."""

    def index_of(self, state_id: int, domain: Domain) -> TimerIndex:
        """The index of timers across keys."""


class KeyScope:
    """The cells and timers of one key.

    The cell of a tag and window is one object as long as a caller holds it: ask again, or keep it.
    What is in memory may be written out whenever anything of the overlay changes; that does not
    show, except in time.

    A scope is *active* while it may hold something that is not in the store. Writing out makes it
    rest: it has no room then, so the first change asks the overlay for some, which makes it active
    again, with all cells that callers still hold. Other cells cost nothing from then on.

    A scope keeps its content after a round: at rest, it is *clean* or *unwritten*. What a clean one
    has is also in the store; ``unwritten`` says that what was committed is not. An image is kept
    aside of an unwritten scope before anything of it changes. ``_loaded`` has the timers of the key
    that were read and not asked for yet, by domain.
    """

    __slots__ = (
        "__weakref__",
        "_changed",
        "_erased",
        "_loaded",
        "_many",
        "_overlay",
        "_owner",
        "_resting",
        "_timers",
        "_windows",
        "active",
        "key",
        "leased",
        "recent",
        "room",
        "state_id",
        "stored",
        "unwritten",
    )

    def __init__(self, overlay: ScopeOwner, state_id: int, key: bytes, stored: bool) -> None:
        self.room = REST_ROOM
        self.leased = 0
        self.active = False
        self.recent = True
        self.state_id = state_id
        self.key = key
        self.stored = stored
        self.unwritten = False
        """At rest: whether something that was committed is not in the store; see ``rest``."""
        self._overlay = overlay
        self._owner: bytes | None = None
        self._windows: dict[bytes, dict[bytes, Cell]] = {}
        self._timers: dict[Domain, Timers] = {}
        self._erased: set[bytes] | None = None
        self._resting: list[ref[Cell] | ref[Timers]] | None = None
        self._changed = overlay.running.changed
        self._loaded: dict[Domain, dict[bytes, dict[TimerIdent, KnownEntry]]] | None
        self._loaded = None if stored else {}
        self._many = False

    # --- for users ----------------------------------------------------------------------------

    def value(self, tag: bytes, window: bytes = b"") -> Value:
        """The value cell of a tag and window."""
        return self.cell(Value, tag, window)

    def combining(self, tag: bytes, window: bytes = b"") -> Combining:
        """The accumulator cell of a tag and window."""
        return self.cell(Combining, tag, window)

    def bag(self, tag: bytes, window: bytes = b"") -> Bag:
        """The bag of a tag and window."""
        return self.cell(Bag, tag, window)

    def set(self, tag: bytes, window: bytes = b"") -> Set:
        """The set of a tag and window."""
        return self.cell(Set, tag, window)

    def map(self, tag: bytes, window: bytes = b"") -> Map:
        """The map of a tag and window."""
        return self.cell(Map, tag, window)

    def multimap(self, tag: bytes, window: bytes = b"") -> Multimap:
        """The multimap of a tag and window."""
        return self.cell(Multimap, tag, window)

    def ordered_list(self, tag: bytes, window: bytes = b"") -> OrderedList:
        """The ordered list of a tag and window."""
        return self.cell(OrderedList, tag, window)

    def cell(self, kind: type[C], tag: bytes, window: bytes = b"") -> C:
        """The cell of that kind, tag and window."""
        cells = self._windows.get(window)
        if cells is None:
            return self._new(kind, tag, window)
        cell = cells.get(tag)
        if cell is None:
            return self._new(kind, tag, window)
        if type(cell) is kind:
            return cell
        message = (
            f"tag {tag!r} of state {self.state_id} is in use as {type(cell).__name__} "
            f"and cannot be opened as {kind.__name__}"
        )
        raise KindMismatch(message)

    def timers(self, domain: Domain) -> Timers:
        """The key's timers that follow one clock, of all windows."""
        timers = self._timers.get(domain)
        if timers is None:
            if not self.active:
                self.lease()
                timers = self._timers.get(domain)
            if timers is None:
                timers = self._timers[domain] = Timers(self, domain, self.stored)
                self.room -= TIMERS_BYTES
        return timers

    def forget_window(self, window: bytes) -> None:
        """Ends the life of a window: its cells and timers are gone, and objects for it stale."""
        if not self.active:
            self.lease()
        for cell in self._windows.pop(window, {}).values():
            cell.disown()
            self.room += CELL_BYTES
        for domain in self._domains(window):
            self.timers(domain).clear_window(window)
        if self.stored:
            if self._erased is None:
                self._erased = set()
            self._erased.add(window)
            self.room -= ENTRY_BYTES + len(window)
            if self.room < 0:
                self.lease()

    def forget(self) -> None:
        """Ends the life of the key: everything is gone. Costs nothing if it was never written."""
        if self._overlay is not GONE_OWNER:
            self._overlay.forget(self.state_id, self.key)

    # --- for cells, timers and the overlay ----------------------------------------------------

    @property
    def group(self) -> int:
        """The key group of the key."""
        self.reach()
        return key_group(self.key)

    def lease(self) -> None:
        """Gets room from the budget, or by writing everything; makes the scope active."""
        self._overlay.room.lease(self)

    def reach(self) -> Store:
        """The store; raises ``StaleScope`` if the scope is gone."""
        return self._overlay.running.store

    def owner(self) -> bytes:
        """The prefix of the rows of cells of this key."""
        owner = self._owner
        if owner is None:
            owner = owner_prefix(Family.CELLS, self.state_id, key_group(self.key), self.key)
            self._owner = owner
        return owner

    def held_timers(self, domain: Domain) -> Timers | None:
        """The timers of a domain, if they may differ from the store's."""
        return self._timers.get(domain)

    def wake(self) -> None:
        """Becomes active, with all that rested and that callers still hold."""
        for resting in self._resting or ():
            found = resting()
            if isinstance(found, Timers):
                self._timers[found.domain] = found
            elif found is not None:
                self._windows.setdefault(found.window, {})[found.tag] = found
                self.room -= CELL_BYTES
        self._resting = None
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
                    _, _, _, content, _ = image
                    size += len(content or b"")
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
            assert isinstance(cell, Value)
            cell.restore(content)
            self._windows.setdefault(window, {})[tag] = cell
        for domain, stored, window, changes in image.timers:
            timers = self._timers.get(domain)
            if timers is None:
                timers = self._timers[domain] = Timers(self, domain, stored)
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
        """Adds to ``batch`` what differs from ``store``, and rests."""
        count = len(batch)
        for window in self._erased or ():
            prefix = window_prefix(self.owner(), window)
            delete_rows(store, batch, prefix, prefix_end(prefix))
        self._erased = None
        resting = [found for found in self._resting or () if found() is not None]
        for cells in self._windows.values():
            for cell in cells.values():
                cell.spill(batch, store)
                resting.append(ref(cell))
        for timers in self._timers.values():
            timers.spill(batch, store)
            resting.append(ref(timers))
        self._windows = {}
        self._timers = {}
        self._resting = resting
        self.stored = self.stored or len(batch) > count
        self.active = False
        self.leased = 0
        self.room = REST_ROOM
        self._loaded = None if self.stored else {}

    def let_go(self, store: Store) -> None:
        """Lets go of everything in memory; only of a clean scope, so there is nothing to encode."""
        self.spill(Batch(0), store)

    def index(self, domain: Domain) -> TimerIndex:
        """Where the timers of the domain are found across keys."""
        return self._overlay.index_of(self.state_id, domain)

    def take_stored_timers(self, domain: Domain) -> StoredTimers:
        """The timers of a domain that the store has."""
        if self.stored and self._loaded is None and not self._many:
            self._load()
        if self._many:
            return TimerRows(self, domain)
        loaded = self._loaded.pop(domain, {}) if self._loaded is not None else {}
        return KnownTimers(self, domain, loaded)

    def know_less(self) -> None:
        """The key has too many timers to know them all."""
        self._many = True

    def kill(self) -> None:
        """Makes every further use an error; breaks reference cycles."""
        self._overlay = GONE_OWNER
        self.active = False
        self.room = GONE_ROOM
        if self._timers:
            for timers in self._timers.values():
                timers.drop()
            self._timers = {}
        self._windows = {}

    def _load(self) -> None:
        prefix = tag_owner(self.owner())
        (rows,) = self.reach().read_prefixes([prefix], MOST_KNOWN, sys.maxsize)
        self._many = rows is None
        self.room -= KNOWN_BYTES * len(rows or ())
        loaded: dict[Domain, dict[bytes, dict[TimerIdent, KnownEntry]]] = {}
        self._loaded = loaded
        for row, time in rows or ():
            window, domain, family, tag = timer_of_owned_tag_row(row, len(prefix))
            entry = (decode_i64(time), window, family, tag, None)
            loaded.setdefault(domain, {}).setdefault(window, {})[family, tag] = entry

    def _domains(self, window: bytes) -> list[Domain]:
        """The domains that may have timers of a window."""
        if self.stored and self._loaded is None and not self._many:
            self._load()
        domains = list(self._timers)
        if not self._many:
            loaded = self._loaded or {}
            domains += [domain for domain in loaded if window in loaded[domain]]
        elif self.stored:  # looks at one row for each
            prefix = window_prefix(tag_owner(self.owner()), window)
            lower, end = prefix, prefix_end(prefix)
            while (row := next(self.reach().iterate_rows(lower, end), None)) is not None:
                domain = Domain(row[len(prefix)])
                if domain not in domains:
                    domains.append(domain)
                lower = prefix + bytes((domain + 1,))
        return domains

    def _let_rest(self, places: list[tuple[bytes, bytes]]) -> None:
        """Lets go of cells that are as good as new ones; callers may still hold them."""
        resting = [found for found in self._resting or () if found() is not None]
        for window, tag in places:
            cells = self._windows[window]
            resting.append(ref(cells.pop(tag)))
            if not cells:
                del self._windows[window]
        self._resting = resting

    def _new(self, kind: type[C], tag: bytes, window: bytes) -> C:
        self.room -= CELL_BYTES
        if self.room < 0:
            self.lease()
            if not self.active:
                self.lease()
            cells = self._windows.get(window)
            if cells is not None and tag in cells:  # it rested, and is back
                self.room += CELL_BYTES
                return self.cell(kind, tag, window)
            if not self.active:  # alone it is more than the budget
                for resting in self._resting or ():
                    found = resting()
                    if type(found) is kind and (found.window, found.tag) == (window, tag):
                        return found
        stored = self.stored and (self._erased is None or window not in self._erased)
        cell = kind(self, tag, window, stored)
        cells = self._windows.get(window)
        if cells is None:
            self._windows[window] = {tag: cell}
        else:
            cells[tag] = cell
        return cell
