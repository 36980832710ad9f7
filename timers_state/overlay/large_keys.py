"""The scopes of large keys: opened, taken over from records, and forgotten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from timers_state.cells.value import Value
from timers_state.keys import EVENT, EXPIRY
from timers_state.large.scope import KeyScope
from timers_state.overlay.residence import SMALL, STORED, TAKEN
from timers_state.small.kinds import SMALL_CELLS
from timers_state.small.records import retire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timers_state.cells.cell import Cell
    from timers_state.keys import TimerIdent, TimerName
    from timers_state.large.scope import ScopeOwner
    from timers_state.overlay.budget import MemoryBudget
    from timers_state.overlay.due_times import DueTimes
    from timers_state.overlay.residence import Residence
    from timers_state.overlay.room import Room
    from timers_state.overlay.round import Round
    from timers_state.overlay.small_keys import SmallKeys
    from timers_state.small.record import Layout, Others, Record


_EXPIRY: Final[TimerIdent] = (b"", b"")


@dataclass(slots=True)
class LargeKeys:
    """Opens scopes, and ends the lives of keys.

    Args:
        small: writes records before a scope takes over.
    """

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
    values, times, payloads, expiry, others = record.committed()
    window = record.window
    for (kind, tag), old, new in zip(layout.values, values, record.values, strict=True):
        if old != new:
            _change_cell(scope, kind, tag, window, old, new)
    for family, was, time, was_with, payload in zip(
        layout.families, times, record.times, payloads, record.payloads, strict=True
    ):
        if (was, was_with) != (time, payload):
            if time is None:
                scope.timers(EVENT).clear(family, b"", window)
            else:
                scope.timers(EVENT).set(time, family, b"", window, payload)
    for name, time, payload in _other_changes(others, record.others):
        domain, family, tag = name
        if time is None:
            scope.timers(domain).clear(family, tag, window)
        else:
            scope.timers(domain).set(time, family, tag, window, payload)
    if expiry != record.expiry:
        if record.expiry is None:
            scope.timers(EXPIRY).clear(*_EXPIRY, window)
        else:
            scope.timers(EXPIRY).set(record.expiry, *_EXPIRY, window)


def _change_cell(
    scope: KeyScope, kind: type[Cell], tag: bytes, window: bytes, old: Any, new: Any
) -> None:
    cell, small = scope.cell(kind, tag, window), SMALL_CELLS.get(kind)
    if small is not None:
        small.tell(cell, old, new)
    elif new is None:
        cell.clear()
    else:
        assert isinstance(cell, Value)
        cell.set(new)


def _other_changes(before: Others, after: Others) -> Iterator[tuple[TimerName, int | None, bytes]]:
    """Names, times and payloads of timers that differ; no time: the timer is not set anymore."""
    if before is after:
        return
    for name in {**before, **after}:
        time, payload = after.get(name, (None, b""))
        if (time, payload) != before.get(name, (None, b"")):
            yield name, time, payload
