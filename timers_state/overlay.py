"""The write-back buffer over a store: what is being processed stays in memory within a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timers_state.ahead import TAKEN_BYTES
from timers_state.keys import (
    Family,
    decode_i64,
    key_group,
    owner_prefix,
    tag_prefix,
    timer_name,
)
from timers_state.prefetch import Prefetch
from timers_state.residents import Residents
from timers_state.scope import SCOPE_BYTES
from timers_state.sealed import SEALED

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from timers_state.ahead import DueKey, StoredTimer
    from timers_state.keys import Domain
    from timers_state.timer_rows import TimerIdent


class Overlay(Prefetch):
    """Scopes by (state id, key), over one store that nothing else writes.

    Reads see the scopes' content first, then the store. Writes stay in memory until ``flush``, or
    until all scopes together exceed ``budget_bytes`` (counted roughly, with what Python objects
    cost); then everything goes to the store in one batch. While that batch is made, memory holds
    the content about three times.

    Changes come in rounds, each of which is taken back or kept as a whole: ``prepare``, then
    ``commit`` or ``rollback``. What rounds leave behind stays in memory to be read, as far as the
    budget goes.

    Args:
        store: where content goes; closed by ``close``.
        budget_bytes: how much may be in memory.
        groups: the number of key groups, for the whole life of the store.
    """

    __slots__ = ()

    def forget(self, state_id: int, key: bytes) -> None:
        """Ends the life of a key: all its state and timers are gone, and its scope is stale.

        Free of charge if the key was never written to the store. Otherwise its rows are removed in
        the next batch, and are not seen until then.
        """
        rounds = self._in_round()
        self._leave_records((state_id, key))
        rounds.drop(state_id, key)
        ident = (state_id, key)
        if self._taken:
            self._free += TAKEN_BYTES * len(self._taken.pop(ident, ()))
        scope = self._scopes.pop(ident, None)
        if scope is not None:
            self._free += scope.leased
            if scope.unwritten:
                self._keep_aside(scope)
        if self._rested:
            scope = self._resting.pop(ident, None) or scope
        if scope.stored if scope is not None else self._may_be_stored(ident):
            self._erased[ident] = None
            self._free -= SCOPE_BYTES + len(key)
        if scope is not None:
            scope.kill()

    def forget_all(self, state_id: int) -> None:
        """Ends the life of all keys of a state, as ``forget`` does for each.

        What the store has of them is removed with the next batch, at once, and not looked at.
        """
        rounds = self._in_round()
        for ident in [*self._scopes, *self._resting, *self._taken]:
            if ident[0] == state_id:
                self.forget(*ident)
        for ident in [ident for ident in self._erased if ident[0] == state_id]:
            del self._erased[ident]
            self._free += SCOPE_BYTES + len(ident[1])
        records = self._records_of(state_id)
        if records is not None:
            records.forget_all()
        self._erased_states.add(state_id)
        rounds.drop_all(state_id)

    def first_time(self, state_id: int, domain: Domain, up_to: int | None = None) -> int | None:
        """When the earliest timer of any key of a state fires; None if none is set.

        Args:
            state_id: the state.
            domain: of the timers.
            up_to: if the time is later, any time after this and not after that one will do, which
                is found faster where timers move on and on.
        """
        first = self._first(state_id, domain, up_to)
        return None if first is None else first[0]

    def next_due(self, state_id: int, domain: Domain, up_to: int) -> bytes | None:
        """The key that has the earliest timer at or before ``up_to``; None if there is none.

        Of keys with equal times, the one with the lowest key group comes first, then the lowest
        key; those that have records are last, in any order. The timer stays set:
        ``scope(state_id, key).timers(domain).pop_due(up_to)`` takes it out. What is set or cleared
        between two calls is considered in the second.
        """
        first = self._first(state_id, domain, up_to)
        return None if first is None or first[0] > up_to else first[1]

    def read_due(self, state_id: int, domain: Domain, up_to: int, most: int) -> list[DueKey]:
        """Keys with timers in the store that are due, about ``most`` timers of them.

        If nothing of a key is in memory, the key comes with its timers. Call ``take`` for each of
        them that fires. Once the key's scope was asked for, use the scope instead: it knows which
        timers were taken. If a key comes without timers, ask its scope from the start. Call
        ``read_on`` when you have dealt with all keys.

        Returns:
            The keys in the order of their first timers; none if nothing in the store is due.
        """
        index = self._in_round().index(self, state_id, domain)
        records = self._records_of(state_id)
        if records is not None and records.is_complete:
            return []
        return index.read_due(up_to, most)

    def take(self, state_id: int, domain: Domain, key: bytes, timer: StoredTimer) -> bool:
        """Takes out a timer that ``read_due`` gave, while its key has no scope.

        Returns:
            False if its key is not as it was: its scope is to be asked.
        """
        time, window, family, tag, _, row, name = timer
        ident = (state_id, key)
        taken = self._taken.get(ident)
        if taken is None:
            if self.taken_of(state_id, key) is None:
                return False
            taken = self._taken[ident] = {}
        taken[domain, window, family, tag] = (time, row, name)
        self._free -= TAKEN_BYTES
        if self._free < 0:
            self._make_room(0)
        return True

    def time_of(
        self, state_id: int, domain: Domain, key: bytes, window: bytes, ident: TimerIdent
    ) -> int | None:
        """As ``Timers.time_of``; does not bring the key into memory if nothing of it is there."""
        taken = self.taken_of(state_id, key)
        if taken is None:
            return self.scope(state_id, key).timers(domain).time_of(*ident, window)
        if (domain, window, *ident) in taken or self.is_erased(state_id, key):
            return None
        owner = owner_prefix(Family.TAGS, state_id, key_group(key, self.groups), key)
        time = self.reach().get(tag_prefix(owner, window, domain) + timer_name(*ident))
        return None if time is None else decode_i64(time)

    def read_on(self, state_id: int, domain: Domain) -> None:
        """All timers that ``read_due`` gave were taken, or fired by the scopes of their keys."""
        self._in_round().index(self, state_id, domain).read_on()

    def count_timers(self, state_id: int, domain: Domain) -> int:
        """How many timers all keys of a state have; passes over each row that the store has."""
        index = self._in_round().index(self, state_id, domain)
        records = self._records_of(state_id)
        if records is None:
            return index.count()
        count = records.count(domain)
        return count if records.is_complete else count + index.count()

    def prepare(self) -> int:
        """Ends a round: everything that it changed is kept in memory.

        Until ``commit`` or ``rollback``, every call that needs the overlay raises
        ``RoundPrepared``. If it raises, nothing can be used anymore.

        Returns:
            What the changes take, in bytes, roughly; 0 if nothing changed since the last ``flush``.
        """
        rounds = self._in_round()
        self._spilling = True
        try:
            batch, unwritten_bytes = self._settle(rounds)
        except BaseException:
            self._lose()
            raise
        finally:
            self._spilling = False
        rounds.prepared = (self.store, batch)
        self.store = SEALED
        aside_bytes = sum(records.aside_bytes for records in self._all_records())
        return batch.size + unwritten_bytes + aside_bytes

    def commit(self) -> None:
        """The prepared round stays. Scopes and cells stay usable.

        Values and timers are written when there is no more room, or when the store has to have
        everything: many change again before, or are gone. All else is written now. If it raises,
        nothing can be used anymore.

        Raises:
            ValueError: no round was prepared.
        """
        rounds = self._rounds
        if rounds.prepared is None:
            message = "there is no prepared round to commit: call prepare() first"
            raise ValueError(message)
        self.store, batch = rounds.prepared
        rounds.prepared = None
        self._free += rounds.drop_images()
        for state_id in rounds.erased_states:
            self._forget_bases(state_id)
        for records in rounds.records.values():
            records.commit()
        try:
            if len(batch):
                self.store.write(batch)
            rounds.unmark(self.store)
            rounds.changed.clear()
            if self._free < 0:
                self._let_go(0)
        except BaseException:
            self._lose()
            raise

    def rollback(self) -> None:
        """Takes back everything since the last ``commit``, prepared or not. All scopes are stale.

        What was committed is in the store then, or in records. If it raises, nothing can be used
        anymore.
        """
        rounds = self._rounds
        if self._lost:
            self._refuse_lost()
        if rounds.prepared is not None:
            self.store, _ = rounds.prepared
            rounds.prepared = None
        for scope in rounds.changed:
            scope.unwritten = False  # not what was committed
        self._spilling = True
        try:
            self._write_committed(kept_aside=True)
            self._kill_all()
            self._erased = {}
            self._erased_states = set()
            self._taken = {}
            for records in rounds.records.values():
                records.undo()
            rounds.undo(self.store)
        except BaseException:
            self._lose()
            raise
        finally:
            self._spilling = False
        self._residents = Residents() if self.store.sequence == 0 else None
        if self.store.sequence == 0:
            for records in rounds.records.values():
                records.have_all_keys()

    def snapshot(self, directory: Path) -> None:
        """Makes a store in ``directory``, absent or empty, that holds all that was committed.

        It is sealed and complete, and shares the files of this one that will not change: on the
        same file system that takes some 20 ms, whatever the size. Only between two rounds: after
        ``commit`` or ``rollback``, before any scope is used.

        Raises:
            ValueError: a round is running.
            RoundPrepared: one is prepared.
            StateError: files cannot be made; this overlay is as it was. Or this store could not be
                written to, and nothing can be used anymore.
        """
        rounds = self._in_round()
        has_changed = any(records.has_changed for records in rounds.records.values())
        removals = self._erased or self._erased_states or self._taken
        if rounds.changed or rounds.images or rounds.marked or removals or has_changed:
            message = "a round is running: a snapshot is made after commit() or rollback()"
            raise ValueError(message)
        self._write_records()
        try:
            self._write_committed(kept_aside=False)
        except BaseException:
            self._lose()
            raise
        self.store.snapshot(directory)

    def close(self) -> None:
        """Closes the store; what was not flushed is dropped, and all scopes are stale."""
        self._kill_all()
        if self._rounds.prepared is not None:
            self.store, _ = self._rounds.prepared
            self._rounds.prepared = None
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
