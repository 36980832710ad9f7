"""Small keys: read from the store, written to it, and let go of."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from timers_state.keys import DOMAINS, EVENT, EXPIRY, key_group, owner_in_time
from timers_state.overlay.residence import ABSENT, STORED
from timers_state.small.records import retire
from timers_state.store.store import Batch

if TYPE_CHECKING:
    from collections.abc import Container

    from timers_state.overlay.due_times import DueTimes
    from timers_state.overlay.residence import Residence
    from timers_state.overlay.round import Round
    from timers_state.small.record import Content, Record
    from timers_state.small.records import Records

AT_ONCE: Final = 256
"""How many keys are written at a time: memory for a batch of many more comes from the system."""


@dataclass(slots=True)
class SmallKeys:
    """Reads and writes records."""

    running: Round
    residence: Residence
    due: DueTimes

    def load(self, records: Records, key: bytes) -> list[Record] | None:
        """What the store has of a key; None if it is elsewhere too, or cannot be records."""
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

    def write_all(self) -> None:
        """Writes what was committed of records; they stay.

        If it raises, those that are not in the store are as they were.
        """
        for records in self.residence.records.values():
            self.write(records, records.unwritten())

    def write(self, records: Records, some: list[Record]) -> None:
        """Writes what was committed of records, some at a time."""
        placed, store = records.rows.in_order(some), self.running.store
        for start in range(0, len(placed), AT_ONCE):
            batch = Batch(store.sequence + 1)
            added = records.rows.add(placed[start : start + AT_ONCE], batch, store, committed=True)
            if len(batch):
                self.due.written(whole=False)
                store.write(batch)
                self._are_stored(records, added)

    def collect(self, batch: Batch, erased_states: Container[int]) -> None:
        """Adds what the round has changed in records, and gives them up.

        Records in use stay, because a caller changes them. The store has what was committed.
        """
        store = self.running.store
        for records in self.residence.records.values():
            is_erased = records.state_id in erased_states
            in_use = set() if is_erased else {records.in_use, *records.beside}
            gone = [record for record in records.all() if record.key not in in_use]
            placed = records.rows.in_order([r for r in records.unwritten() if r.key not in in_use])
            self._are_stored(records, records.rows.add(placed, batch, store, committed=False))
            self.give_up(records, gone)
            records.drop_all(in_use)

    def give_up(self, records: Records, gone: list[Record]) -> None:
        """What the store has of keys that have no records anymore is to be found again."""
        if gone:
            self.tell_index(records, gone)
            retire(gone)

    def tell_index(self, records: Records, gone: list[Record]) -> None:
        """The timers that the store has of records are found by the index from now on."""
        index = {domain: self.due.index(records.state_id, domain) for domain in DOMAINS}
        for record in gone:
            if record.base is None:
                continue
            _, times, _, expiry, others = record.base
            for time in times:
                if time is not None:
                    index[EVENT].will_write(time)
            if expiry is not None:
                index[EXPIRY].will_write(expiry)
            for (domain, _, _), (time, _) in others.items():
                index[domain].will_write(time)
        self.due.written(whole=False)

    def _are_stored(self, records: Records, added: list[tuple[Record, Content]]) -> None:
        records.are_written(added)
        self.residence.are_stored((records.state_id, record.key) for record, _ in added)
