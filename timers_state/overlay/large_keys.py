"""The scopes of large keys: opened, taken over from records, and forgotten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from timers_state.cells.value import Value
from timers_state.large.scope import KeyScope
from timers_state.overlay.residence import SMALL, STORED, TAKEN
from timers_state.small.kinds import SMALL_CELLS
from timers_state.small.records import retire

if TYPE_CHECKING:
    from timers_state.cells.cell import Cell
    from timers_state.large.scope import ScopeOwner
    from timers_state.overlay.budget import MemoryBudget
    from timers_state.overlay.due_times import DueTimes
    from timers_state.overlay.residence import Residence
    from timers_state.overlay.room import Room
    from timers_state.overlay.round import Round
    from timers_state.overlay.small_keys import SmallKeys
    from timers_state.small.record import Layout, Record


@dataclass(slots=True)
class LargeKeys:
    """Opens scopes, and ends the lives of keys. Records are written before a scope takes over."""

    owner: ScopeOwner
    budget: MemoryBudget
    running: Round
    residence: Residence
    due: DueTimes
    room: Room
    small: SmallKeys

    def open(self, state_id: int, key: bytes) -> KeyScope:
        """The scope of a key that has none."""
        residence = self.residence
        self.running.check()
        where = residence.where(state_id, key)
        if where is SMALL:
            taken_over = self._take_over(state_id, key)
            if taken_over is not None:
                return taken_over
            where = residence.where(state_id, key)
        if state_id in residence.records:
            residence.records[state_id].is_complete = False
        scope = KeyScope(self.owner, state_id, key, where in (STORED, TAKEN))
        self.room.activate(scope)
        if where is TAKEN:
            for (domain, window, *name), (time, _, _) in residence.untake((state_id, key)).items():
                family, tag = name
                scope.timers(domain).is_gone(window, (family, tag), time)
        return scope

    def forget(self, state_id: int, key: bytes) -> None:
        """Ends the life of a key; the next batch removes its rows."""
        self.running.check()
        residence, ident = self.residence, (state_id, key)
        if residence.where(state_id, key) is SMALL:
            self._take_over(state_id, key)
        self.due.drop(state_id, key)
        if residence.taken:
            residence.untake(ident)
        scope = residence.leave(ident)
        if scope is None:
            if residence.where(state_id, key) is STORED:
                residence.erase(ident)
            return
        if scope.unwritten:
            self.running.keep_aside(scope)
        if scope.stored:
            residence.erase(ident)
        scope.kill()

    def forget_all(self, state_id: int) -> None:
        """Ends the life of all keys of a state; the next batch removes all rows."""
        self.running.check()
        for ident in self.residence.scopes_of(state_id):
            self.forget(*ident)
        records = self.residence.records.get(state_id)
        if records is not None:
            records.forget_all()
        self.residence.erase_all(state_id)
        self.due.drop_all(state_id)

    def _take_over(self, state_id: int, key: bytes) -> KeyScope | None:
        """The scope that takes over what a key's records have; None if they had to be let go.

        What was committed goes to the store first.
        """
        records = self.residence.records[state_id]
        self.small.write(records, records.of(key))
        if self.residence.where(state_id, key) is not SMALL:
            return None
        taken = records.take(key)
        self.budget.free += records.give_back()
        self.small.tell_index(records, taken)
        is_stored = any(record.base is not None for record in taken)
        scope = KeyScope(self.owner, state_id, key, is_stored)
        self.room.activate(scope)
        for record in taken:
            _change_scope(scope, record, records.layout)
        retire(taken)
        return scope


def _change_scope(scope: KeyScope, record: Record, layout: Layout) -> None:
    """Makes the changes of the running round to a scope; the store has what was committed."""
    before, after, window = record.committed(), record.content(), record.window
    for (kind, tag), old, new in zip(layout.values, before[0], after[0], strict=True):
        if old != new:
            _change_cell(scope.cell(kind, tag, window), old, new)
    known, timers = layout.timers(before), layout.timers(after)
    for name in {**known, **timers}:
        timer = timers.get(name)
        if timer == known.get(name):
            continue
        domain, family, tag = name
        if timer is None:
            scope.timers(domain).clear(family, tag, window)
        else:
            time, payload = timer
            scope.timers(domain).set(time, family, tag, window, payload)


def _change_cell(cell: Cell, old: Any, new: Any) -> None:
    small = SMALL_CELLS.get(type(cell))
    if small is not None:
        small.tell(cell, old, new)
    elif new is None:
        cell.clear()
    else:
        assert isinstance(cell, Value)
        cell.set(new)
