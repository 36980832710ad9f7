"""Room in memory for scopes: given from the budget, or made by writing and letting go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from timers_state.ahead import TAKEN_BYTES
from timers_state.cells.cell import REST_ROOM
from timers_state.scope import SCOPE_BYTES, KeyScope
from timers_state.write_back import WriteBack

if TYPE_CHECKING:
    from timers_state.residents import Ident

_FIRST_ROOM: Final = 1024
_FIRST_LEASE: Final = SCOPE_BYTES + _FIRST_ROOM
# A key that comes back mostly replaces what it has; in a round there are many of them.
_NEXT_ROOM: Final = 128
_MOST_ROOM: Final = 1 << 20


class Room(WriteBack):
    """Scopes that are active hold a lease on a part of the budget."""

    __slots__ = ()

    def scope(self, state_id: int, key: bytes) -> KeyScope:
        """The scope of a key: the same object for as long as it is active or anybody has it."""
        ident = (state_id, key)
        scope = self._scopes.get(ident)
        return scope if scope is not None else self._open(ident)

    def lease(self, scope: KeyScope) -> None:
        """See ``Holdings``."""
        if not scope.active:
            self._in_round()
            if scope.leased and self._free >= _NEXT_ROOM:
                self._free -= _NEXT_ROOM
                scope.leased += _NEXT_ROOM
                scope.room += _NEXT_ROOM - REST_ROOM
                scope.active = True
                if scope.unwritten:
                    self._keep_aside(scope)
                scope.wake()
            else:
                self._activate(scope, (scope.state_id, scope.key))
        need = -scope.room
        if need <= 0:
            return
        if need > self._free and not self._spilling and not self._make_room(need):
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
        self._in_round()
        taken_over = self._leave_records(ident)
        if taken_over is not None:
            return taken_over
        scope = KeyScope(self, ident[0], ident[1], self._may_be_stored(ident))
        self._activate(scope, ident)
        if self._taken:
            self._tell_taken(scope, ident)
        return scope

    def _tell_taken(self, scope: KeyScope, ident: Ident) -> None:
        """A key comes into memory, of which timers were taken from the store."""
        taken = self._taken.pop(ident, None)
        if taken is not None:
            self._free += TAKEN_BYTES * len(taken)
            for (domain, window, family, tag), (time, _, _) in taken.items():
                scope.timers(domain).is_gone(window, (family, tag), time)

    def _activate(self, scope: KeyScope, ident: Ident) -> None:
        scope.active = True  # first, so that it is not let go of to make room
        if self._free < _FIRST_LEASE and not self._spilling:
            self._make_room(_FIRST_LEASE)
            scope.active = True  # a clean one was written out with everything else
        self._free -= _FIRST_LEASE
        self._scopes[ident] = scope
        scope.leased += _FIRST_LEASE
        scope.room += _FIRST_ROOM - REST_ROOM
        if scope.unwritten:
            self._keep_aside(scope)
        scope.wake()

    def _make_room(self, need: int) -> bool:
        """Makes room; says whether that was possible without writing everything out."""
        rounds = self._rounds
        has_records = any(records.heads for records in self._all_records())
        if has_records or len(rounds.changed) < len(self._scopes):
            self._let_go(need)
            if self._free >= need:
                return True
        if self._scopes or self._taken or has_records:
            self.flush()
        return False

    def _let_go(self, need: int) -> None:
        """Lets go of what the running round did not change, as far as needed."""
        much = need + self._budget // 16
        self._evict(much)
        if self._free < need:
            self._spilling = True
            try:
                self._evict_records(much)
                self._write_committed(kept_aside=False)
            except BaseException:
                self._lose()
                raise
            finally:
                self._spilling = False
            self._evict(much)

    def _evict(self, need: int) -> None:
        """Lets go of clean scopes until ``need`` bytes are free, those not used lately first."""
        for any_will_do in (False, True):
            for ident, scope in list(self._scopes.items()):
                if self._free >= need:
                    return
                if scope.active or scope.unwritten:
                    continue
                if scope.recent and not any_will_do:
                    scope.recent = False
                    continue
                self._release(ident, scope)

    def _release(self, ident: Ident, scope: KeyScope) -> None:
        """Lets go of what a clean scope has in memory."""
        self._free += scope.leased
        scope.let_go(self.store)
        del self._scopes[ident]
        self._resting[ident] = scope
        self._rested = True
