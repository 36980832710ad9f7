"""What an overlay has in memory as records: how they are found, written, and given up."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from timers_state.holdings import Holdings
from timers_state.keys import Domain, key_group, owner_in_time
from timers_state.record import times_in
from timers_state.record_loading import MOST_ROWS
from timers_state.record_scope import change_scope, scope_of
from timers_state.records import Records, retire
from timers_state.store import Batch

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from timers_state.ahead import Taken
    from timers_state.record import Content, Layout, Record
    from timers_state.residents import Ident
    from timers_state.scope import KeyScope

AT_ONCE: Final = 256
"""How many keys are written at a time: memory for a batch of many more comes from the system."""


class RecordHoldings(Holdings):
    """Holdings in which a key has either records or a scope."""

    __slots__ = ()

    def records(self, state_id: int, layout: Layout) -> Records:
        """The records of a state, always the same ones.

        They have their keys for themselves: the scope of a key takes over what its records had.
        """
        rounds = self._in_round()
        records = rounds.records.get(state_id)
        if records is None:
            has_scopes = any(id_ == state_id for id_, _ in self._scopes)
            is_new = self.store.sequence == 0 and not has_scopes
            records = rounds.records[state_id] = Records(self, state_id, layout, is_new=is_new)
        return records

    def lend(self, records: Records, need: int) -> None:
        """See ``records.Lender``."""
        self._in_round()
        if need > self._free:
            self._make_room(need)
        self._free -= need
        records.leased += need
        records.room += need

    def load(self, records: Records, key: bytes) -> list[Record] | None:
        """See ``records.Lender``."""
        rounds, ident = self._in_round(), (records.state_id, key)
        if ident in self._scopes or ident in self._resting:
            return None
        if ident in self._taken or self.is_erased(*ident):
            return None
        if not self._may_be_stored(ident):
            return []
        if rounds.marked:  # what is there may have to be undone
            return None
        loading, placed = records.loading, [(owner_in_time(key_group(key, self.groups), key), key)]
        rows = loading.reader.read(self.store, placed, MOST_ROWS, sys.maxsize)
        return loading.load(self.store, placed, rows)[0]

    def is_erased(self, state_id: int, key: bytes) -> bool:
        """See ``due_index.Memory``; timers of records are found by those."""
        records = self._records_of(state_id)
        return (records is not None and key in records.heads) or super().is_erased(state_id, key)

    def keys_that_differ(self, state_id: int, domain: Domain) -> list[bytes]:
        """See ``due_index.Memory``."""
        differ = super().keys_that_differ(state_id, domain)
        records = self._records_of(state_id)
        if records is not None:
            differ += [record.key for record in records.all() if record.base is not None]
        return differ

    def taken_of(self, state_id: int, key: bytes) -> Taken | None:
        """See ``due_index.Memory``."""
        records = self._records_of(state_id)
        if records is not None and key in records.heads:
            return None
        return super().taken_of(state_id, key)

    def _all_records(self) -> Iterable[Records]:
        return self._rounds.records.values()

    def _records_of(self, state_id: int) -> Records | None:
        return self._rounds.records.get(state_id)

    def _first(
        self, state_id: int, domain: Domain, up_to: int | None = None
    ) -> tuple[int, bytes] | None:
        """Time and key of the earliest timer; some earlier time after ``up_to``, if it is later."""
        rounds = self._in_round()
        records = rounds.records.get(state_id)
        if records is None:
            return rounds.index(self, state_id, domain).first()
        first = records.first(domain, up_to)
        if records.is_complete:
            return first
        other = rounds.index(self, state_id, domain).first()
        if first is None or (other is not None and other[0] <= first[0]):
            return other
        return first

    def _leave_records(self, ident: Ident) -> KeyScope | None:
        """The scope that takes over what a key's records have, if it has any."""
        records = self._records_of(ident[0])
        if records is None:
            return None
        if ident[1] in records.heads:  # no scope keeps bags and sets unwritten
            self._write_some(records, records.unwritten_items_of(ident[1]))
        if ident[1] not in records.heads:
            records.is_complete = False
            return None
        taken = records.take(ident[1])
        self._free += records.give_back()
        scope = scope_of(self, ident[0], taken, records.layout)
        self._scopes[ident] = scope
        self._free -= scope.leased
        self._tell_index(records, taken)
        for record in taken:
            content = record.committed()
            for domain in Domain:
                for time in times_in(content, domain):
                    self.index_of(ident[0], domain).note(time, ident[1], alone=False)
        for record in taken:
            change_scope(scope, record, records.layout)
        retire(taken)
        return scope

    def _write_records(self) -> None:
        """Writes what was committed of records; they stay.

        If it raises, those that are not in the store are as they were.
        """
        for records in self._all_records():
            self._write_some(records, records.unwritten())

    def _write_some(self, records: Records, some: list[Record]) -> None:
        """Writes what was committed of records, some at a time."""
        placed = records.rows.in_order(some)
        for start in range(0, len(placed), AT_ONCE):
            batch = Batch(self.store.sequence + 1)
            added = records.rows.add(
                placed[start : start + AT_ONCE], batch, self.store, committed=True
            )
            if len(batch):
                self._written(whole=False)
                self.store.write(batch)
                self._are_stored(records, added)

    def _collect_records(self, batch: Batch, erased_states: Container[int]) -> None:
        """Adds what the round has changed in records, and gives them up.

        Those that are in use are not: somebody changes them. The store has what was committed.
        """
        for records in self._all_records():
            in_use = None if records.state_id in erased_states else records.in_use
            gone = [record for record in records.all() if record.key != in_use]
            placed = records.rows.in_order([r for r in records.unwritten() if r.key != in_use])
            self._are_stored(records, records.rows.add(placed, batch, self.store, committed=False))
            self._tell_index(records, gone)
            retire(gone)
            records.drop_all(in_use)

    def _evict_records(self, need: int) -> None:
        """Gives up records that the round did not change, until ``need`` bytes are free."""
        for records in self._all_records():
            if self._free >= need:
                break
            unwritten, gone = records.evict(need - self._free)
            self._free += records.give_back()
            self._write_some(records, unwritten)
            self._tell_index(records, gone)
            retire(gone)

    def _forget_bases(self, state_id: int) -> None:
        """The store has nothing of a state anymore."""
        records = self._records_of(state_id)
        if records is not None:
            records.store_is_empty()

    def _are_stored(self, records: Records, added: list[tuple[Record, Content]]) -> None:
        records.are_written(added)
        if self._residents is not None:
            self._residents.update((records.state_id, record.key) for record, _ in added)

    def _tell_index(self, records: Records, gone: list[Record]) -> None:
        """What the store has of keys that have no records anymore is to be found again."""
        if not gone:
            return
        index = {domain: self.index_of(records.state_id, domain) for domain in Domain}
        event, expiry = index[Domain.EVENT], index[Domain.EXPIRY]
        for record in gone:
            if record.base is not None:
                for time in record.base[1]:
                    if time is not None:
                        event.will_write(time)
                if record.base[3] is not None:
                    expiry.will_write(record.base[3])
                for (domain, _, _), (time, _) in record.base[4].items():
                    index[domain].will_write(time)
        self._written(whole=False)
