"""Writing what an overlay has in memory to its store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timers_state.ahead import TAKEN_BYTES, remove_taken
from timers_state.erase import erase_key, erase_state
from timers_state.keys import key_group
from timers_state.record_holdings import AT_ONCE, RecordHoldings
from timers_state.scope import SCOPE_BYTES, KeyScope
from timers_state.store import Batch

if TYPE_CHECKING:
    from timers_state.residents import Ident
    from timers_state.rounds import Rounds


def _row_start(scope: KeyScope) -> bytes:
    return scope.owner()


class WriteBack(RecordHoldings):
    """Holdings that go to the store: all of them, those of a round, or those committed before."""

    __slots__ = ()

    def flush(self) -> None:
        """Writes everything to the store, in one batch. Scopes and cells stay usable.

        Within a round, an undo point of the store is made before.
        If it raises, nothing can be used anymore: what was in memory is lost.
        """
        self._in_round()
        self._forget_absent()
        self._spilling = True
        try:
            self._write_records()
            kept_aside = self._write_committed(kept_aside=True)
            batch = Batch(self.store.sequence + 1)
            if kept_aside is not None:
                batch.take_back(kept_aside)
            self._collect(batch)
            if len(batch):
                self._rounds.mark(self.store)
                self.store.write(batch)
        except BaseException:
            self._lose()
            raise
        finally:
            self._spilling = False

    def _collect(self, batch: Batch) -> None:
        """Adds what is not in the store; all scopes let go of their content."""
        erased_states = self._erased_states
        self._removals(batch)
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
        for state_id in erased_states:
            self._forget_bases(state_id)
        self._collect_records(batch, erased_states)
        self._free -= self._rounds.image_bytes
        self._rounds.changed.clear()
        self._written(whole=True)

    def _settle(self, rounds: Rounds) -> tuple[Batch, int]:
        """Makes all scopes rest. What has to be written goes to a batch.

        Returns:
            The batch, and how many bytes stay unwritten.
        """
        self._forget_absent()
        batch = Batch(self.store.sequence + 1)
        rounds.erased_states = self._erased_states
        self._removals(batch)
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
        for scope in sorted(to_write, key=_row_start):
            self._settle_scope(scope, batch)
        if len(batch):
            self._written(whole=False)
        return batch, unwritten_bytes

    def _settle_scope(self, scope: KeyScope, batch: Batch) -> None:
        new = not scope.stored
        self._keep(scope, scope.settle(batch, self.store))
        if new and scope.stored and self._residents is not None:
            self._residents.add((scope.state_id, scope.key))

    def _write_committed(self, *, kept_aside: bool) -> Batch | None:
        """Writes what was committed and is not in the store; scopes become clean.

        Args:
            kept_aside: also what the running round has changed since.

        Returns:
            What was written of that.
        """
        rounds = self._rounds
        scopes = [scope for scope in self._scopes.values() if scope.unwritten]
        scopes.sort(key=_row_start)
        for start in range(0, len(scopes), AT_ONCE):
            batch = Batch(self.store.sequence + 1)
            for scope in scopes[start : start + AT_ONCE]:
                self._settle_scope(scope, batch)
            if len(batch):
                self._written(whole=False)
                self.store.write(batch)
        if not kept_aside or not rounds.images:
            return None
        batch = Batch(self.store.sequence + 1)
        for (state_id, key), image in sorted(rounds.images.items()):
            scope = KeyScope(self, state_id, key, image.stored)
            scope.restore(image)
            scope.settle(batch, self.store)
            scope.kill()
        self._free += rounds.drop_images()
        if len(batch):
            self._written(whole=False)
            self.store.write(batch)
        return batch

    def _removals(self, batch: Batch) -> None:
        """Adds what goes from the store, without anything in its place."""
        for state_id in self._erased_states:
            erase_state(batch, state_id)
        for taken in self._taken.values():
            remove_taken(batch, taken)
            self._free += TAKEN_BYTES * len(taken)
        self._taken = {}
        for state_id, key in self._erased:
            erase_key(self.store, batch, state_id, key_group(key, self.groups), key)
            self._free += SCOPE_BYTES + len(key)
        if self._residents is not None:
            self._residents.leave(self._erased)
            for gone in self._erased_states:
                self._residents.leave_all(gone)
        self._erased = {}
        self._erased_states = set()
