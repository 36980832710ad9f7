"""The write-back buffer over a store: what is being processed stays in memory within a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timers_state.keys import (
    Family,
    decode_i64,
    key_group,
    owner_prefix,
    tag_prefix,
    timer_name,
)
from timers_state.overlay.budget import MemoryBudget
from timers_state.overlay.due_times import DueTimes
from timers_state.overlay.large_keys import LargeKeys
from timers_state.overlay.prefetch import Prefetch
from timers_state.overlay.residence import Residence
from timers_state.overlay.room import Room
from timers_state.overlay.round import Round
from timers_state.overlay.small_keys import SmallKeys
from timers_state.overlay.write_back import WriteBack
from timers_state.small.records import Records

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from timers_state.keys import Domain, TimerIdent
    from timers_state.large.scope import KeyScope
    from timers_state.overlay.due_index import DueIndex, DueKey
    from timers_state.overlay.residence import StoredTimer
    from timers_state.small.record import Layout
    from timers_state.store.store import Store


class Overlay:
    """Keys by state id, over one store that nothing else writes.

    Reads see what is in memory first, then the store. Writes stay in memory until ``flush``, or
    until all keys together exceed ``budget_bytes`` (counted roughly, with what Python objects
    cost); then everything goes to the store in one batch. While that batch is made, memory holds
    the content about three times.

    Changes come in rounds, each of which is taken back or kept as a whole: ``prepare``, then
    ``commit`` or ``rollback``. What rounds leave behind stays in memory to be read, as far as the
    budget goes.

    Args:
        store: where content goes; closed by ``close``.
        budget_bytes: how much may be in memory.
    """

    def __init__(self, store: Store, budget_bytes: int) -> None:
        budget = self._budget = MemoryBudget(budget_bytes)
        running = self.running = Round(store, budget)
        residence = self._residence = Residence(budget)
        residence.begin(store.sequence)
        due = self._due = DueTimes(residence, running)
        small = self._small = SmallKeys(running, residence, due)
        write_back = WriteBack(self, budget, running, residence, due, small)
        self._write_back = write_back
        room = self.room = Room(budget, running, residence, write_back)
        self._large = LargeKeys(self, budget, running, residence, due, room, small)
        self._prefetch = Prefetch(budget, running, residence, room)

    @property
    def store(self) -> Store:
        """The store; while a round is prepared, one that refuses every call."""
        return self.running.store

    def scope(self, state_id: int, key: bytes) -> KeyScope:
        """The scope of a key: the same object while it is active or a caller holds it.

        If the key has records, the scope takes over what they have.
        """
        scope = self._residence.scope_of(state_id, key)
        return scope if scope is not None else self._large.open(state_id, key)

    def records(self, state_id: int, layout: Layout) -> Records:
        """The records of a state, always the same ones: its keys that are small."""
        running, residence = self.running, self._residence
        running.check()
        records = residence.records.get(state_id)
        if records is None:
            is_new = running.store.sequence == 0 and not residence.scopes_of(state_id)
            records = Records(state_id, layout, self._small.load, self.room.lend, is_new=is_new)
            residence.records[state_id] = records
        return records

    def is_small(self, state_id: int, key: bytes) -> bool:
        """Whether a key has records in memory."""
        return self._residence.is_small(state_id, key)

    def bring_small(self, state_id: int, key: bytes) -> bool:
        """Whether a key is small. If only the store has the key, it becomes records if it can."""
        if self._residence.is_small(state_id, key):
            return True
        records = self._residence.records.get(state_id)
        if records is None or not records.takes(key):
            return False
        return self._residence.is_small(state_id, key)

    def forget(self, state_id: int, key: bytes) -> None:
        """Ends the life of a key: all its state and timers are gone, and its scope is stale.

        Free of charge if the key was never written to the store. Otherwise its rows are removed in
        the next batch, and are not seen until then.
        """
        self._large.forget(state_id, key)

    def forget_all(self, state_id: int) -> None:
        """Ends the life of all keys of a state, as ``forget`` does for each.

        What the store has of them is removed with the next batch, at once, and not looked at.
        """
        self._large.forget_all(state_id)

    def first_time(self, state_id: int, domain: Domain, up_to: int | None = None) -> int | None:
        """When the earliest timer of any key of a state fires; None if none is set.

        Args:
            up_to: if the time is later, any time after this and not after that one will do, which
                is found faster where timers move on and on.
        """
        self.running.check()
        first = self._due.first(state_id, domain, up_to)
        return None if first is None else first[0]

    def next_due(self, state_id: int, domain: Domain, up_to: int) -> bytes | None:
        """The key that has the earliest timer at or before ``up_to``; None if there is none.

        Of keys with equal times, the one with the lowest key group comes first, then the lowest
        key; those that have records are last, in any order. The timer stays set:
        ``scope(state_id, key).timers(domain).pop_due(up_to)`` takes it out. What is set or cleared
        between two calls is considered in the second.
        """
        self.running.check()
        first = self._due.first(state_id, domain, up_to)
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
        self.running.check()
        return self._due.read(state_id, domain, up_to, most)

    def take(self, state_id: int, domain: Domain, key: bytes, timer: StoredTimer) -> bool:
        """Takes out a timer that ``read_due`` gave, while its key has no scope.

        Returns:
            False if its key is not as it was: its scope is to be asked.
        """
        if not self._residence.take(state_id, key, domain, timer):
            return False
        if self._budget.free < 0:
            self.room.make(0)
        return True

    def time_of(
        self, state_id: int, domain: Domain, key: bytes, window: bytes, ident: TimerIdent
    ) -> int | None:
        """As ``Timers.time_of``; does not bring the key into memory if nothing of it is there."""
        taken = self._residence.taken_of(state_id, key)
        if taken is None:
            return self.scope(state_id, key).timers(domain).time_of(*ident, window)
        if (domain, window, *ident) in taken:
            return None
        owner = owner_prefix(Family.TAGS, state_id, key_group(key), key)
        time = self.store.get(tag_prefix(owner, window, domain) + timer_name(*ident))
        return None if time is None else decode_i64(time)

    def read_on(self, state_id: int, domain: Domain) -> None:
        """All timers that ``read_due`` gave were taken, or fired by the scopes of their keys."""
        self.running.check()
        self._due.index(state_id, domain).read_on()

    def count_timers(self, state_id: int, domain: Domain) -> int:
        """How many timers all keys of a state have; passes over each row that the store has."""
        self.running.check()
        return self._due.count(state_id, domain)

    def has_to_prefetch(self, state_id: int) -> bool:
        """Whether ``prefetch`` may have something to do in this round, as far as is known.

        If not, no key of a state is in the store only; or the running round has more than there is
        room for, so that whatever is read is written soon.
        """
        return self._prefetch.is_needed(state_id)

    def prefetch(self, state_id: int, keys: Sequence[bytes]) -> int:
        """Reads what the store has of keys that are about to be used, if keys may be records.

        Apart from time, that does not show: what was read is as if it had stayed in memory after a
        round, and goes when there is no room. A key that the store has not got is not looked for
        again in this round. Keys with much in them, or that are in use, are left as they are.

        Do not call this amid the turn of a key that has records, unless it is ``beside``.

        Args:
            keys: in the order in which they will be used; some thousands are best.

        Returns:
            How many of them, from the first, were looked at; at least one, if there is any. Ask for
            the others when these were used.

        Raises:
            StateError: the store is damaged, or cannot be read.
        """
        return self._prefetch.read(state_id, keys)

    def flush(self) -> None:
        """Writes everything to the store, in one batch. Scopes and cells stay usable.

        Within a round, an undo point of the store is made before.
        If it raises, nothing can be used anymore: what was in memory is lost.
        """
        self._write_back.flush()

    def prepare(self) -> int:
        """Ends a round: everything that it changed is kept in memory.

        Until ``commit`` or ``rollback``, every call that needs the overlay raises
        ``RoundPrepared``. If it raises, nothing can be used anymore.

        Returns:
            What the changes take, in bytes, roughly; 0 if nothing changed since the last ``flush``.
        """
        self.running.check()
        with self._write_back.writing():
            batch, unwritten_bytes = self._write_back.settle()
        self.running.prepare(batch)
        aside_bytes = sum(records.aside_bytes for records in self._residence.records.values())
        return batch.size + unwritten_bytes + aside_bytes

    def commit(self) -> None:
        """The prepared round stays. Scopes and cells stay usable.

        Values and timers are written when there is no more room, or when the store has to have
        everything: many change again before, or are gone. All else is written now. If it raises,
        nothing can be used anymore.

        Raises:
            ValueError: no round was prepared.
        """
        running = self.running
        batch = running.resume()
        if batch is None:
            message = "there is no prepared round to commit: call prepare() first"
            raise ValueError(message)
        running.drop_images()
        self._write_back.states_are_gone(running.erased_states)
        for records in self._residence.records.values():
            records.commit()
        with self._write_back.writing():
            if len(batch):
                running.store.write(batch)
            running.unmark()
            running.changed.clear()
            if self._budget.free < 0:
                self.room.let_go(0)

    def rollback(self) -> None:
        """Takes back everything since the last ``commit``, prepared or not. All scopes are stale.

        What was committed is in the store then, or in records. If it raises, nothing can be used
        anymore.
        """
        running, residence = self.running, self._residence
        running.resume()
        running.check()
        for scope in running.changed:
            scope.unwritten = False  # not what was committed
        with self._write_back.writing():
            self._write_back.write_committed(kept_aside=True)
            residence.end_scopes()
            residence.drop_removals()
            for records in residence.records.values():
                records.undo()
            running.undo()
            self._due.restart()
        residence.begin(running.store.sequence)
        if running.store.sequence == 0:
            for records in residence.records.values():
                records.is_complete = True

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
        running, residence = self.running, self._residence
        running.check()
        has_changed = any(records.has_changed for records in residence.records.values())
        if running.has_changed() or residence.has_removals() or has_changed:
            message = "a round is running: a snapshot is made after commit() or rollback()"
            raise ValueError(message)
        self._small.write_all()
        with self._write_back.writing():
            self._write_back.write_committed(kept_aside=False)
        running.store.snapshot(directory)

    def close(self) -> None:
        """Closes the store; what was not flushed is dropped, and all scopes are stale."""
        self._residence.end_scopes()
        self.running.resume()
        self.running.store.close()

    def index_of(self, state_id: int, domain: Domain) -> DueIndex:
        """The index of a state's timers that follow one clock."""
        self.running.check()
        return self._due.index(state_id, domain)

    def __enter__(self) -> Overlay:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
