"""The write-back buffer over a store: what is being processed stays in memory within a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn
from weakref import WeakValueDictionary

from timers_state.cells.cell import REST_ROOM
from timers_state.erase import erase_key
from timers_state.errors import StoreFailed
from timers_state.keys import DEFAULT_GROUPS, MAX_GROUPS, key_group
from timers_state.round_scope import RoundScope
from timers_state.rounds import Rounds
from timers_state.scope import SCOPE_BYTES, KeyScope
from timers_state.sealed import SEALED, refuse
from timers_state.store import Batch

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from timers_state.due_index import DueIndex
    from timers_state.keys import Domain
    from timers_state.store import Store
    from timers_state.timers import Timers

_FIRST_ROOM: Final = 1024
_FIRST_LEASE: Final = SCOPE_BYTES + _FIRST_ROOM
# A key that comes back mostly replaces what it has; in a round there are many of them.
_NEXT_ROOM: Final = 128
_MOST_ROOM: Final = 1 << 20
_MOST_RESIDENTS: Final = 100_000

Ident = tuple[int, bytes]


def _place(scope: KeyScope) -> bytes:
    return scope.owner()


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
        rounds: whether changes come in rounds, each of which is taken back or kept as a whole
            (``prepare``, then ``commit`` or ``rollback``), and timers are asked for across keys
            (``first_time``, ``next_due``). What rounds leave behind stays in memory to be read, as
            far as the budget goes.
    """

    __slots__ = (
        "_budget",
        "_erased",
        "_free",
        "_kind",
        "_lost",
        "_residents",
        "_rested",
        "_resting",
        "_rounds",
        "_scopes",
        "_spilling",
        "groups",
        "store",
    )

    def __init__(
        self,
        store: Store,
        budget_bytes: int,
        groups: int = DEFAULT_GROUPS,
        *,
        rounds: bool = False,
    ) -> None:
        if not 1 <= groups <= MAX_GROUPS:
            message = f"the number of key groups must be in [1, {MAX_GROUPS}], not {groups}"
            raise ValueError(message)
        self.store = store
        self.groups = groups
        self._budget = budget_bytes
        self._free = budget_bytes
        self._spilling = False
        self._lost = False
        self._rounds = Rounds() if rounds else None
        self._kind: type[KeyScope] = RoundScope if rounds else KeyScope
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
        rounds = self._rounds
        if rounds is not None:
            self._check_open_round()
            rounds.drop(state_id, key)
        ident = (state_id, key)
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

    def flush(self) -> None:
        """Writes everything to the store, in one batch. Scopes and cells stay usable.

        Within a round, an undo point of the store is made before.
        If it raises, nothing can be used anymore: what was in memory is lost.
        """
        self._check_open_round()
        self._spilling = True
        try:
            kept_aside = self._write_committed(kept_aside=True)
            batch = Batch(self.store.sequence + 1)
            if kept_aside is not None:
                batch.take_back(kept_aside)
            self._collect(batch)
            if len(batch):
                if self._rounds is not None:
                    self._rounds.mark(self.store)
                self.store.write(batch)
        except BaseException:
            self._lose()
            raise
        finally:
            self._spilling = False

    def first_time(self, state_id: int, domain: Domain) -> int | None:
        """When the earliest timer of any key of a state fires; None if none is set."""
        first = self._in_round().index(self, state_id, domain).first()
        return None if first is None else first[0]

    def next_due(self, state_id: int, domain: Domain, up_to: int) -> bytes | None:
        """The key that has the earliest timer at or before ``up_to``; None if there is none.

        Of keys with equal times, the one with the lowest key group comes first, then the lowest
        key. The timer stays set: ``scope(state_id, key).timers(domain).pop_due(up_to)`` takes it
        out. What is set or cleared between two calls is considered in the second.
        """
        first = self._in_round().index(self, state_id, domain).first()
        return None if first is None or first[0] > up_to else first[1]

    def count_timers(self, state_id: int, domain: Domain) -> int:
        """How many timers all keys of a state have; takes a microsecond or two for each."""
        return self._in_round().index(self, state_id, domain).count()

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
        return batch.size + unwritten_bytes

    def commit(self) -> None:
        """The prepared round stays. Scopes and cells stay usable.

        Values and timers are written when there is no more room, or when the store has to have
        everything: many change again before, or are gone. All else is written now. If it raises,
        nothing can be used anymore.

        Raises:
            ValueError: no round was prepared.
        """
        rounds = self._rounds
        if rounds is None or rounds.prepared is None:
            message = "there is no prepared round to commit: call prepare() first"
            raise ValueError(message)
        self.store, batch = rounds.prepared
        rounds.prepared = None
        self._free += rounds.drop_images()
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

        What was committed is in the store then. If it raises, nothing can be used anymore.
        """
        rounds = self._rounds
        if rounds is None:
            self._in_round()
            return
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
            rounds.undo(self.store)
        except BaseException:
            self._lose()
            raise
        finally:
            self._spilling = False
        self._residents = set() if self.store.sequence == 0 else None

    def snapshot(self, directory: Path) -> None:
        """Makes a store in ``directory``, absent or empty, that holds all that was committed.

        It is sealed and complete, and shares the files of this one that will not change: on the
        same file system that takes some 20 ms, whatever the size. Only between two rounds: after
        ``commit`` or ``rollback``, before any scope is used.

        Raises:
            ValueError: a round is running.
            RoundPrepared: one is prepared.
            StateError: files cannot be made; this overlay is as it was.
        """
        rounds = self._in_round()
        if rounds.changed or rounds.images or rounds.marked or self._erased:
            message = "a round is running: a snapshot is made after commit() or rollback()"
            raise ValueError(message)
        self._write_committed(kept_aside=False)
        self.store.snapshot(directory)

    def close(self) -> None:
        """Closes the store; what was not flushed is dropped, and all scopes are stale."""
        self._kill_all()
        if self._rounds is not None and self._rounds.prepared is not None:
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

    def lease(self, scope: KeyScope) -> None:
        """Makes a scope active and gives it room, from the budget or by writing everything out."""
        if not scope.active:
            self._check_open_round()
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

    def changed_scopes(self) -> list[RoundScope]:
        """Where scopes put themselves that become active; only with rounds."""
        return self._in_round().changed

    def index_of(self, state_id: int, domain: Domain) -> DueIndex:
        """The index of timers across keys; only with rounds."""
        return self._in_round().index(self, state_id, domain)

    def reach(self) -> Store:
        """The store, or what refuses in its place."""
        return self.store

    def unwritten_timers(self, state_id: int, key: bytes, domain: Domain) -> Timers | None:
        """See ``due_index.Memory``."""
        scope = self._scopes.get((state_id, key))
        return None if scope is None else scope.held_timers(domain)

    def is_erased(self, state_id: int, key: bytes) -> bool:
        """See ``due_index.Memory``."""
        return (state_id, key) in self._erased

    def _open(self, ident: Ident) -> KeyScope:
        if self._rested:
            scope = self._resting.get(ident)
            if scope is not None:
                return scope
        self._check_open_round()
        scope = self._kind(self, ident[0], ident[1], self._may_be_stored(ident))
        self._activate(scope, ident)
        return scope

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

    def _keep_aside(self, scope: KeyScope) -> None:
        """Keeps what was committed of a scope that is about to change."""
        rounds = self._rounds
        if rounds is not None and isinstance(scope, RoundScope):
            image = scope.image()
            rounds.images[scope.state_id, scope.key] = image
            rounds.image_bytes += image[4]
            self._free -= image[4]
            scope.unwritten = False

    def _make_room(self, need: int) -> bool:
        """Makes room; says whether that was possible without writing everything out."""
        rounds = self._rounds
        if rounds is not None and len(rounds.changed) < len(self._scopes):
            self._let_go(need)
            if self._free >= need:
                return True
        if self._scopes:
            self.flush()
        return False

    def _let_go(self, need: int) -> None:
        """Lets go of what the running round did not change, as far as needed."""
        much = need + self._budget // 16
        self._evict(much)
        if self._free < need:
            self._spilling = True
            try:
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
                if scope.active or scope.unwritten or not isinstance(scope, RoundScope):
                    continue
                if scope.recent and not any_will_do:
                    scope.recent = False
                    continue
                self._free += scope.leased
                scope.let_go(self.store)
                del self._scopes[ident]
                self._resting[ident] = scope
                self._rested = True

    def _may_be_stored(self, ident: Ident) -> bool:
        residents = self._residents
        return (residents is None or ident in residents) and ident not in self._erased

    def _collect(self, batch: Batch) -> None:
        """Adds what is not in the store; all scopes let go of their content."""
        self._erasures(batch)
        clean: dict[Ident, KeyScope] = {}
        for ident, scope in self._scopes.items():
            if not scope.active:
                clean[ident] = scope
                continue
            scope.spill(batch, self.store)
            self._resting[ident] = scope
            if scope.stored and self._residents is not None:
                self._residents.add(ident)
        self._rested = True
        self._scopes = clean
        self._free = self._budget - sum(scope.leased for scope in clean.values())
        if self._rounds is not None:
            self._free -= self._rounds.image_bytes
            self._rounds.changed.clear()
        self._written(whole=True)

    def _settle(self, rounds: Rounds) -> tuple[Batch, int]:
        """Makes all scopes rest. What has to be written goes to a batch.

        Returns:
            The batch, and how many bytes stay unwritten.
        """
        batch = Batch(self.store.sequence + 1)
        self._erasures(batch)
        unwritten_bytes = 0
        to_write = []
        for scope in rounds.changed:
            if not scope.active:  # it was forgotten
                continue
            cost = scope.rest()
            if cost < 0:
                to_write.append(scope)
                continue
            self._keep(scope, cost)
            if scope.unwritten:
                unwritten_bytes += cost
        for scope in sorted(to_write, key=_place):
            self._settle_scope(scope, batch)
        if len(batch):
            self._written(whole=False)
        return batch, unwritten_bytes

    def _settle_scope(self, scope: RoundScope, batch: Batch) -> None:
        new = not scope.stored
        self._keep(scope, scope.settle(batch, self.store))
        if new and scope.stored and self._residents is not None:
            self._residents.add((scope.state_id, scope.key))

    def _keep(self, scope: RoundScope, cost: int) -> None:
        """Keeps a scope that rests, at that cost; lets go of it if there is none."""
        self._free += scope.leased - cost
        scope.leased = cost
        if not cost:
            ident = (scope.state_id, scope.key)
            del self._scopes[ident]
            self._resting[ident] = scope
            self._rested = True

    def _write_committed(self, *, kept_aside: bool) -> Batch | None:
        """Writes what was committed and is not in the store; scopes become clean.

        Args:
            kept_aside: also what the running round has changed since.

        Returns:
            What was written of that.
        """
        rounds = self._rounds
        if rounds is None:
            return None
        batch = Batch(self.store.sequence + 1)
        scopes = [s for s in self._scopes.values() if isinstance(s, RoundScope) and s.unwritten]
        for scope in sorted(scopes, key=_place):
            self._settle_scope(scope, batch)
        if len(batch):
            self._written(whole=False)
            self.store.write(batch)
        if not kept_aside or not rounds.images:
            return None
        batch = Batch(self.store.sequence + 1)
        for (state_id, key), image in sorted(rounds.images.items()):
            scope = RoundScope(self, state_id, key, image.stored)
            scope.restore(image)
            scope.settle(batch, self.store)
            scope.kill()
        self._free += rounds.drop_images()
        if len(batch):
            self._written(whole=False)
            self.store.write(batch)
        return batch

    def _erasures(self, batch: Batch) -> None:
        for state_id, key in self._erased:
            erase_key(self.store, batch, state_id, key_group(key, self.groups), key)
            self._free += SCOPE_BYTES + len(key)
        if self._residents is not None:
            self._residents.difference_update(self._erased)
        self._erased = {}

    def _written(self, *, whole: bool) -> None:
        """Something in memory is about to be in the store; everything if ``whole``."""
        if self._residents is not None and len(self._residents) > _MOST_RESIDENTS:
            self._residents = None
        if self._rounds is not None:
            self._rounds.written(whole=whole)

    def _in_round(self) -> Rounds:
        rounds = self._rounds
        if rounds is None:
            message = "this overlay was made without rounds: pass rounds=True"
            raise ValueError(message)
        if rounds.prepared is not None:
            refuse()
        if self._lost:
            self._refuse_lost()
        return rounds

    def _check_open_round(self) -> None:
        rounds = self._rounds
        if rounds is not None and rounds.prepared is not None:
            refuse()
        if self._lost:
            self._refuse_lost()

    def _kill_all(self) -> None:
        for scope in (*self._scopes.values(), *self._resting.values()):
            scope.kill()
        self._scopes = {}
        self._resting = WeakValueDictionary()
        self._free = self._budget

    def _lose(self) -> None:
        """What was in memory is gone, perhaps something that was committed."""
        self._kill_all()
        self._lost = self._rounds is not None

    def _refuse_lost(self) -> NoReturn:
        message = (
            "what was committed and not written is lost, since writing failed before: the last "
            "snapshot has the state of its time"
        )
        raise StoreFailed(message)
