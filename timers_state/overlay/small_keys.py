"""The records of small keys: made for each state, and read from the store."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from typing_extensions import override

from timers_state.keys import key_group, owner_in_time
from timers_state.overlay.residence import ABSENT, STORED
from timers_state.small.records import Lender, Records

if TYPE_CHECKING:
    from timers_state.overlay.budget import MemoryBudget
    from timers_state.overlay.residence import Residence
    from timers_state.overlay.room import Room
    from timers_state.overlay.round import Round
    from timers_state.small.record import Layout, Record


@dataclass(slots=True)
class SmallKeys(Lender):
    """The lender of records: gives them room, and what the store has."""

    budget: MemoryBudget
    running: Round
    residence: Residence
    room: Room

    def records(self, state_id: int, layout: Layout) -> Records:
        """The records of a state, always the same ones."""
        self.running.check()
        records = self.residence.records.get(state_id)
        if records is None:
            is_new = self.running.store.sequence == 0 and not self.residence.scopes_of(state_id)
            records = Records(self, state_id, layout, is_new=is_new)
            self.residence.records[state_id] = records
        return records

    def bring(self, state_id: int, key: bytes) -> bool:
        """Whether a key has records, after the store was asked for them if it may have some."""
        if self.residence.is_small(state_id, key):
            return True
        records = self.residence.records.get(state_id)
        return records is not None and records.takes(key) and self.residence.is_small(state_id, key)

    @override
    def lend(self, records: Records, need: int) -> None:
        self.running.check()
        if need > self.budget.free:
            self.room.make(need)
        self.budget.free -= records.get_room(need)

    @override
    def load(self, records: Records, key: bytes) -> list[Record] | None:
        self.running.check()
        where = self.residence.where(records.state_id, key)
        if where is ABSENT:
            return []
        if where is not STORED:
            return None
        if self.running.is_marked:  # what is there may have to be undone
            return None
        placed = [(owner_in_time(key_group(key), key), key)]
        return records.loading.load(self.running.store, placed, sys.maxsize)[0]
