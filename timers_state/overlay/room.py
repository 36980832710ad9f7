"""Room in memory for keys: lent from the budget, or made by writing and letting go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from timers_state.cells.cell import REST_ROOM
from timers_state.large.scope import SCOPE_BYTES

if TYPE_CHECKING:
    from timers_state.large.scope import KeyScope
    from timers_state.overlay.budget import MemoryBudget
    from timers_state.overlay.residence import Residence
    from timers_state.overlay.round import Round
    from timers_state.overlay.write_back import WriteBack
    from timers_state.small.records import Records

_FIRST_ROOM: Final = 1024
_FIRST_LEASE: Final = SCOPE_BYTES + _FIRST_ROOM
# A key that comes back mostly replaces what it has; in a round there are many of them.
_NEXT_ROOM: Final = 128


@dataclass(slots=True)
class Room:
    """Keys hold a lease on a part of the budget."""

    budget: MemoryBudget
    running: Round
    residence: Residence
    write_back: WriteBack

    def lease(self, scope: KeyScope) -> None:
        """Makes a scope active and gives it room, from the budget or by writing everything."""
        budget = self.budget
        if not scope.active:
            self.running.check()
            if scope.leased and budget.free >= _NEXT_ROOM:
                budget.free -= _NEXT_ROOM
                scope.leased += _NEXT_ROOM
                scope.room += _NEXT_ROOM - REST_ROOM
                scope.active = True
                if scope.unwritten:
                    self.running.keep_aside(scope)
                scope.wake()
            else:
                self.activate(scope)
        need = -scope.room
        if need <= 0:
            return
        if need > budget.free and not self.write_back.is_writing and not self.make(need):
            return
        grant = budget.lend(need, scope.leased)
        scope.room += grant
        scope.leased += grant

    def lend(self, records: Records, need: int) -> None:
        """Gives room to records, if need be by writing out, which may take records away."""
        self.running.check()
        if need > self.budget.free:
            self.make(need)
        self.budget.free -= records.get_room(need)

    def activate(self, scope: KeyScope) -> None:
        """Makes a scope active that has no lease."""
        scope.active = True  # first, so that it is not let go of to make room
        if self.budget.free < _FIRST_LEASE and not self.write_back.is_writing:
            self.make(_FIRST_LEASE)
            scope.active = True  # a clean one was written out with everything else
        self.residence.scopes[scope.state_id, scope.key] = scope
        self.budget.free -= _FIRST_LEASE
        scope.leased += _FIRST_LEASE
        scope.room += _FIRST_ROOM - REST_ROOM
        if scope.unwritten:
            self.running.keep_aside(scope)
        scope.wake()

    def make(self, need: int) -> bool:
        """Makes room; says whether that was possible without writing everything out."""
        residence = self.residence
        had_records = residence.has_records()
        if self.let_go_if_any(need) and self.budget.free >= need:
            return True
        if residence.scopes or residence.taken or had_records:
            self.write_back.flush()
        return False

    def let_go_if_any(self, need: int) -> bool:
        """Calls ``let_go`` if there may be a key that the running round did not change."""
        residence = self.residence
        if residence.has_records() or len(self.running.changed) < len(residence.scopes):
            self.let_go(need)
            return True
        return False

    def let_go(self, need: int) -> None:
        """Lets go of what the running round did not change, as far as needed."""
        much = need + self.budget.size // 16
        self._evict(much)
        if self.budget.free < need:
            with self.write_back.writing():
                self._evict_records(much)
                self.write_back.write_committed(kept_aside=False)
            self._evict(much)

    def _evict(self, need: int) -> None:
        """Lets go of clean scopes until ``need`` bytes are free, those not used lately first."""
        budget, residence = self.budget, self.residence
        for any_will_do in (False, True):
            for ident, scope in list(residence.scopes.items()):
                if budget.free >= need:
                    return
                if scope.active or scope.unwritten:
                    continue
                if scope.recent and not any_will_do:
                    scope.recent = False
                    continue
                budget.free += scope.leased
                scope.let_go(self.running.store)
                residence.rest(ident, scope)

    def _evict_records(self, need: int) -> None:
        """Gives up records that the round did not change, until ``need`` bytes are free."""
        budget, small = self.budget, self.write_back.small
        for records in self.residence.records.values():
            if budget.free >= need:
                break
            unwritten, gone = records.evict(need - budget.free)
            budget.free += records.give_back()
            small.write(records, unwritten)
            small.give_up(records, gone)
