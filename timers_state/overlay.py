"""The write-back buffer over a store: what is being processed stays in memory within a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from timers_state.erase import erase_key
from timers_state.keys import DEFAULT_GROUPS, MAX_GROUPS, key_group
from timers_state.scope import KeyScope
from timers_state.store import Batch

if TYPE_CHECKING:
    from types import TracebackType

    from timers_state.store import Store

SCOPE_BYTES: Final = 640
"""What a scope without content costs in memory."""

_FIRST_ROOM: Final = 1024
_FIRST_LEASE: Final = SCOPE_BYTES + _FIRST_ROOM
_MOST_ROOM: Final = 1 << 20
_MOST_RESIDENTS: Final = 100_000

Ident = tuple[int, bytes]


class Overlay:
    """Scopes by (state id, key), over one store that nothing else writes.

    Reads see the scopes' content first, then the store. Writes stay in memory until ``flush``, or
    until all scopes together exceed ``budget_bytes`` (counted roughly, with what Python objects
    cost); then everything goes to the store in one batch. While that batch is made, memory holds
    the content about three times.

    Args:
        store: where content goes; closed by ``close``.
        budget_bytes: how much may be in memory.
        groups: the number of key groups, for the whole life of the store.
    """

    __slots__ = (
        "_budget",
        "_erased",
        "_free",
        "_residents",
        "_rested",
        "_resting",
        "_scopes",
        "_spilling",
        "groups",
        "store",
    )

    def __init__(self, store: Store, budget_bytes: int, groups: int = DEFAULT_GROUPS) -> None:
        if not 1 <= groups <= MAX_GROUPS:
            message = f"the number of key groups must be in [1, {MAX_GROUPS}], not {groups}"
            raise ValueError(message)
        self.store = store
        self.groups = groups
        self._budget = budget_bytes
        self._free = budget_bytes
        self._spilling = False
        self._scopes: dict[Ident, KeyScope] = {}
        self._rested = False
        self._resting: WeakValueDictionary[Ident, KeyScope] = WeakValueDictionary()
        self._erased: dict[Ident, None] = {}
        # Keys that the store has rows of; None: any key may have some.
        self._residents: set[Ident] | None = set() if store.sequence == 0 else None

    def scope(self, state_id: int, key: bytes) -> KeyScope:
        """The scope of a key: the same object for as long as it is active or anybody has it."""
        ident = (state_id, key)
        scope = self._scopes.get(ident)
        return scope if scope is not None else self._open(ident)

    def forget(self, state_id: int, key: bytes) -> None:
        """Ends the life of a key: all its state and timers are gone, and its scope is stale.

        Free of charge if the key was never written to the store. Otherwise its rows are removed in
        the next batch, and are not seen until then.
        """
        ident = (state_id, key)
        scope = self._scopes.pop(ident, None)
        if scope is not None:
            self._free += scope.leased
        if self._rested:
            scope = self._resting.pop(ident, None) or scope
        if scope.stored if scope is not None else self._may_be_stored(ident):
            self._erased[ident] = None
            self._free -= SCOPE_BYTES + len(key)
        if scope is not None:
            scope.kill()

    def flush(self) -> None:
        """Writes everything to the store, in one batch. Scopes and cells stay usable.

        If it raises, nothing can be used anymore: what was in memory is lost.
        """
        self._spilling = True
        try:
            batch = self._collect()
            if len(batch):
                self.store.write(batch)
        except BaseException:
            self._kill_all()
            raise
        finally:
            self._spilling = False

    def close(self) -> None:
        """Closes the store; what was not flushed is dropped, and all scopes are stale."""
        self._kill_all()
        self.store.close()

    def __enter__(self) -> Overlay:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def lease(self, scope: KeyScope) -> None:
        """Makes a scope active and gives it room, from the budget or by writing everything out."""
        if not scope.active:
            self._activate(scope, (scope.state_id, scope.key))
        need = -scope.room
        if need <= 0:
            return
        if need > self._free and not self._spilling:
            self.flush()
            return
        grant = max(need, min(need + scope.leased, _MOST_ROOM, self._free))
        scope.room += grant
        scope.leased += grant
        self._free -= grant

    def _open(self, ident: Ident) -> KeyScope:
        if self._rested:
            scope = self._resting.get(ident)
            if scope is not None:
                return scope
        scope = KeyScope(self, ident[0], ident[1], self._may_be_stored(ident))
        self._activate(scope, ident)
        return scope

    def _activate(self, scope: KeyScope, ident: Ident) -> None:
        if self._free < _FIRST_LEASE and self._scopes and not self._spilling:
            self.flush()
        self._free -= _FIRST_LEASE
        self._scopes[ident] = scope
        scope.leased = _FIRST_LEASE
        scope.room += _FIRST_ROOM
        scope.active = True
        scope.wake()

    def _may_be_stored(self, ident: Ident) -> bool:
        residents = self._residents
        return (residents is None or ident in residents) and ident not in self._erased

    def _collect(self) -> Batch:
        batch = Batch(self.store.sequence + 1)
        for state_id, key in self._erased:
            erase_key(self.store, batch, state_id, key_group(key, self.groups), key)
        if self._residents is not None:
            self._residents.difference_update(self._erased)
        self._erased = {}
        for ident, scope in self._scopes.items():
            scope.spill(batch, self.store)
            self._resting[ident] = scope
            if scope.stored and self._residents is not None:
                self._residents.add(ident)
        if self._residents is not None and len(self._residents) > _MOST_RESIDENTS:
            self._residents = None
        self._rested = True
        self._scopes = {}
        self._free = self._budget
        return batch

    def _kill_all(self) -> None:
        for scope in (*self._scopes.values(), *self._resting.values()):
            scope.kill()
        self._scopes = {}
        self._resting = WeakValueDictionary()
        self._free = self._budget
