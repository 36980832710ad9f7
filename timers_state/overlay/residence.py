"""Where keys are: the only module that answers this."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from timers_state.large.scope import SCOPE_BYTES
from timers_state.overlay.residents import Residents

if TYPE_CHECKING:
    from collections.abc import Iterable

    from timers_state.keys import Domain
    from timers_state.large.scope import KeyScope
    from timers_state.large.timers import Timers
    from timers_state.overlay.budget import MemoryBudget
    from timers_state.overlay.residents import Ident
    from timers_state.small.records import Records

ABSENT_BYTES: Final = 128
"""What it costs in memory to know of a key that the store has nothing of it."""

TAKEN_BYTES: Final = 640
"""What a timer costs in memory that was taken from the store, until that is written."""

StoredTimer = tuple[int, bytes, bytes, bytes, bytes, bytes, int]
"""Time, window, family, dynamic tag, payload; then its row, and where its name starts in there."""

Name = tuple["Domain", bytes, bytes, bytes]
"""Which timer of a key: domain, window, family, dynamic tag."""

Taken = dict[Name, tuple[int, bytes, int]]
"""Timers of a key that were taken from the store: their time, row, and where the name starts."""

_NOTHING_TAKEN: Final[Taken] = {}


class Where(Enum):
    """Where the state of a key is."""

    SMALL = 0
    """In memory, in records."""
    LARGE = 1
    """In a scope, which has what differs from the store."""
    ERASED = 2
    """Nowhere: its rows do not count, and the next batch removes them."""
    TAKEN = 3
    """In the store. Memory has the names of timers that were taken out since."""
    STORED = 4
    """In the store, or nowhere."""
    ABSENT = 5
    """Nowhere: the store has no rows of the key."""


# Constants are found faster than members of an enum.
SMALL: Final = Where.SMALL
LARGE: Final = Where.LARGE
ERASED: Final = Where.ERASED
TAKEN: Final = Where.TAKEN
STORED: Final = Where.STORED
ABSENT: Final = Where.ABSENT


class Residence:
    """The keys that are in memory, and what memory knows of those that are not.

    Args:
        budget: what is known of keys takes its bytes from it.

    Attributes:
        records: small keys, by state.
        scopes: large keys that have content in memory, or may get some without asking.
        resting: large keys without content in memory. Each lasts as long as a caller holds it.
        has_rested: whether there was ever one; to look for one takes long.
        erased: keys whose rows the next batch removes.
        erased_states: states of which the next batch removes all rows.
        taken: timers whose rows the next batch removes, by key. Nothing of the key is in memory.
        stored: keys that the store may have rows of; None means any key.
    """

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.records: dict[int, Records] = {}
        self.scopes: dict[Ident, KeyScope] = {}
        self.resting: WeakValueDictionary[Ident, KeyScope] = WeakValueDictionary()
        self.has_rested = False
        self.erased: dict[Ident, None] = {}
        self.erased_states: set[int] = set()
        self.taken: dict[Ident, Taken] = {}
        self._absent: dict[int, set[bytes]] = {}
        self.stored: Residents | None = None

    def begin(self, sequence: int) -> None:
        """The store has had so many batches: if none, it has no rows of any key."""
        self.stored = None if sequence else Residents()

    # --- where a key is -----------------------------------------------------------------------

    def where(self, state_id: int, key: bytes) -> Where:
        """Where a key is."""
        here = self._in_memory(state_id, key)
        if here is not None:
            return here
        if self._absent and key in self._absent.get(state_id, ()):
            return ABSENT
        stored = self.stored
        return STORED if stored is None or (state_id, key) in stored else ABSENT

    def _in_memory(self, state_id: int, key: bytes) -> Where | None:
        """What memory has of a key; None if it has nothing, so that the store may be asked."""
        records = self.records.get(state_id)
        if records is not None and key in records.heads:
            return SMALL
        ident = (state_id, key)
        if ident in self.scopes or (self.has_rested and ident in self.resting):
            return LARGE
        if (self.erased and ident in self.erased) or state_id in self.erased_states:
            return ERASED
        if self.taken and ident in self.taken:
            return TAKEN
        return None

    def is_small(self, state_id: int, key: bytes) -> bool:
        """Whether a key has records."""
        records = self.records.get(state_id)
        return records is not None and key in records.heads

    def scope_of(self, state_id: int, key: bytes) -> KeyScope | None:
        """The scope of a large key; None if the key is elsewhere."""
        ident = (state_id, key)
        scope = self.scopes.get(ident)
        if scope is None and self.has_rested:
            scope = self.resting.get(ident)
        return scope

    def use(self, state_id: int, key: bytes) -> Where:
        """As ``where``. The key will be used soon, so it does not make room for others."""
        records = self.records.get(state_id)
        record = None if records is None else records.heads.get(key)
        if record is not None:
            record.recent = True
            return SMALL
        where = self.where(state_id, key)
        if where is LARGE:
            scope = self.scopes.get((state_id, key))
            if scope is not None:
                scope.recent = True
        return where

    def scopes_of(self, state_id: int) -> list[Ident]:
        """The large keys of a state, and those of which timers were taken."""
        return [key for key in (*self.scopes, *self.resting, *self.taken) if key[0] == state_id]

    def has_records(self) -> bool:
        """Whether there is a small key that is not in use, and may have to go."""
        return any(records.are_any_idle() for records in self.records.values())

    def unwritten_timers(self, state_id: int, key: bytes, domain: Domain) -> Timers | None:
        """The timers of a key, if some may differ from the store's."""
        scope = self.scopes.get((state_id, key))
        return None if scope is None else scope.held_timers(domain)

    def is_erased(self, state_id: int, key: bytes) -> bool:
        """Whether timers that the store has of a key do not count anymore."""
        # Timers of small keys are found by their records.
        if (state_id, key) in self.erased or state_id in self.erased_states:
            return True
        records = self.records.get(state_id)
        return records is not None and key in records.heads

    def is_all_erased(self, state_id: int) -> bool:
        """Whether none of the store's rows of a state counts anymore."""
        return state_id in self.erased_states

    def keys_that_differ(self, state_id: int, domain: Domain) -> list[bytes]:
        """The keys of which the store has timers that do not count; perhaps others, too."""
        differ = [key for id_, key in (*self.erased, *self.taken) if id_ == state_id]
        for (id_, key), scope in self.scopes.items():
            if id_ == state_id and scope.stored:
                timers = scope.held_timers(domain)
                if timers is not None and timers.differs:
                    differ.append(key)
        records = self.records.get(state_id)
        if records is not None:
            differ += [record.key for record in records.all() if record.base is not None]
        return differ

    def taken_of(self, state_id: int, key: bytes) -> Taken | None:
        """Timers of a key that do not count anymore; None if something of it may be in memory."""
        where = self._in_memory(state_id, key)
        if where is TAKEN:
            return self.taken[state_id, key]
        return _NOTHING_TAKEN if where is None else None

    # --- what changes it ----------------------------------------------------------------------

    def keep(self, scope: KeyScope, cost: int) -> None:
        """A scope ends its round with content that costs so many bytes; it rests if that is 0."""
        self._budget.free += scope.leased - cost
        scope.leased = cost
        if not cost:
            self.rest((scope.state_id, scope.key), scope)

    def rest(self, ident: Ident, scope: KeyScope) -> None:
        """A scope has no content in memory anymore."""
        del self.scopes[ident]
        self.resting[ident] = scope
        self.has_rested = True

    def leave(self, ident: Ident) -> KeyScope | None:
        """A large key ends; returns its scope, which may be elsewhere."""
        scope = self.scopes.pop(ident, None)
        if scope is not None:
            self._budget.free += scope.leased
        if self.has_rested:
            scope = self.resting.pop(ident, None) or scope
        return scope

    def erase(self, ident: Ident) -> None:
        """The store's rows of a key do not count from now on."""
        self.erased[ident] = None
        self._budget.free -= SCOPE_BYTES + len(ident[1])

    def erase_all(self, state_id: int) -> None:
        """The store's rows of a state do not count from now on."""
        for ident in [ident for ident in self.erased if ident[0] == state_id]:
            del self.erased[ident]
            self._budget.free += SCOPE_BYTES + len(ident[1])
        self.erased_states.add(state_id)

    def take(self, state_id: int, key: bytes, domain: Domain, timer: StoredTimer) -> bool:
        """A timer of the store does not count from now on; False if memory has something of it."""
        time, window, family, tag, _, row, name = timer
        ident = (state_id, key)
        taken = self.taken.get(ident)
        if taken is None:
            if self.taken_of(state_id, key) is None:
                return False
            taken = self.taken[ident] = {}
        taken[domain, window, family, tag] = (time, row, name)
        self._budget.free -= TAKEN_BYTES
        return True

    def untake(self, ident: Ident) -> Taken:
        """The timers that were taken of a key. The caller takes care of them from now on."""
        taken = self.taken.pop(ident, _NOTHING_TAKEN)
        self._budget.free += TAKEN_BYTES * len(taken)
        return taken

    def has_removals(self) -> bool:
        """Whether the next batch removes rows."""
        return bool(self.erased or self.erased_states or self.taken)

    def are_removed(self) -> None:
        """A batch removes the rows that do not count."""
        for taken in self.taken.values():
            self._budget.free += TAKEN_BYTES * len(taken)
        for _, key in self.erased:
            self._budget.free += SCOPE_BYTES + len(key)
        if self.stored is not None:
            self.stored.leave(self.erased)
            for state_id in self.erased_states:
                self.stored.leave_all(state_id)
        self.drop_removals()

    def drop_removals(self) -> None:
        """The rows that did not count are gone, or count again."""
        self.erased = {}
        self.erased_states = set()
        self.taken = {}

    def are_stored(self, idents: Iterable[Ident]) -> None:
        """The store gets rows of these keys."""
        if self.stored is not None:
            self.stored.update(idents)

    def is_absent(self, state_id: int, key: bytes) -> None:
        """The store has no rows of a key, as was found out; costs ``ABSENT_BYTES``."""
        self._absent.setdefault(state_id, set()).add(key)
        self._budget.free -= ABSENT_BYTES

    def forget_absent(self, state_id: int) -> None:
        """The same is to be found out again, for keys of a state."""
        self._budget.free += ABSENT_BYTES * len(self._absent.pop(state_id, ()))

    def forget_all_absent(self) -> None:
        """The same for keys of all states."""
        for state_id in list(self._absent):
            self.forget_absent(state_id)

    def end_scopes(self) -> None:
        """All large keys end, and nothing but small keys is in memory."""
        for scope in (*self.scopes.values(), *self.resting.values()):
            scope.kill()
        self.scopes = {}
        self.resting = WeakValueDictionary()
        self._absent = {}
        leased = sum(records.leased for records in self.records.values())
        self._budget.free = self._budget.size - leased
