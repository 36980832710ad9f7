"""Writing what an overlay has in memory to its store: all of it, or what was committed."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timers_state.keys import (
    Family,
    decode_i64,
    key_group,
    owner_prefix,
    place_of_owner,
    prefix_end,
    state_prefix,
    tag_owner,
    tag_row_of,
    time_row,
    timer_name,
    timer_of_owned_tag_row,
    window_prefix,
)
from timers_state.large.scope import KeyScope
from timers_state.overlay.small_keys import AT_ONCE, SmallKeys
from timers_state.store.store import Batch, delete_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timers_state.large.scope import ScopeOwner
    from timers_state.overlay.budget import MemoryBudget
    from timers_state.overlay.due_times import DueTimes
    from timers_state.overlay.residence import Residence
    from timers_state.overlay.round import Round
    from timers_state.store.store import Store


@dataclass(slots=True)
class WriteBack:
    """Writes keys.

    Args:
        owner: what owns the scopes that are made of images, to be written.

    Attributes:
        is_writing: whether something is being written, so that no room can be made by writing.
    """

    owner: ScopeOwner
    budget: MemoryBudget
    running: Round
    residence: Residence
    due: DueTimes
    small: SmallKeys
    is_writing: bool = False

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Something is being written. If that raises, what was in memory is lost."""
        self.is_writing = True
        try:
            yield
        except BaseException:
            for records in self.residence.records.values():
                records.drop_all()
            self.residence.end_scopes()
            self.running.is_lost = True
            raise
        finally:
            self.is_writing = False

    def flush(self) -> None:
        """Writes everything in one batch, behind an undo point of the store."""
        running = self.running
        running.check()
        self.residence.forget_all_absent()
        with self.writing():
            self.small.write_all()
            kept_aside = self.write_committed(kept_aside=True)
            batch = Batch(running.store.sequence + 1)
            if kept_aside is not None:
                batch.take_back(kept_aside)
            self._collect(batch)
            if len(batch):
                running.mark()
                running.store.write(batch)

    def settle(self) -> tuple[Batch, int]:
        """Makes all scopes rest. What has to be written goes to a batch.

        Returns:
            The batch, and how many bytes stay unwritten.
        """
        running, residence = self.running, self.residence
        residence.forget_all_absent()
        batch = Batch(running.store.sequence + 1)
        running.erased_states = residence.erased_states
        self._add_removals(batch)
        unwritten_bytes = 0
        to_write = []
        for scope in running.changed:
            if not scope.active:  # it was forgotten
                continue
            cost = scope.rest()
            if cost < 0:
                to_write.append(scope)
                continue
            residence.keep(scope, cost)
            if scope.unwritten:
                unwritten_bytes += cost
        for scope in sorted(to_write, key=KeyScope.owner):
            self._settle(scope, batch)
        if len(batch):
            self.due.written(whole=False)
        return batch, unwritten_bytes

    def write_committed(self, *, kept_aside: bool) -> Batch | None:
        """Writes what was committed and is not in the store; scopes become clean.

        Args:
            kept_aside: also what the running round has changed since.

        Returns:
            What was written of that.
        """
        running = self.running
        scopes = [scope for scope in self.residence.scopes.values() if scope.unwritten]
        scopes.sort(key=KeyScope.owner)
        for start in range(0, len(scopes), AT_ONCE):
            batch = Batch(running.store.sequence + 1)
            for scope in scopes[start : start + AT_ONCE]:
                self._settle(scope, batch)
            self._write(batch)
        if not kept_aside or not running.images:
            return None
        batch = Batch(running.store.sequence + 1)
        for (state_id, key), image in sorted(running.images.items()):
            scope = KeyScope(self.owner, state_id, key, image.stored)
            scope.restore(image)
            scope.settle(batch, running.store)
            scope.kill()
        running.drop_images()
        self._write(batch)
        return batch

    def states_are_gone(self, state_ids: set[int]) -> None:
        """The store has nothing of these states anymore."""
        for state_id in state_ids:
            records = self.residence.records.get(state_id)
            if records is not None:
                records.store_is_empty()

    def _write(self, batch: Batch) -> None:
        if len(batch):
            self.due.written(whole=False)
            self.running.store.write(batch)

    def _collect(self, batch: Batch) -> None:
        """Adds what is not in the store; all scopes let go of their content."""
        residence, running = self.residence, self.running
        erased_states = residence.erased_states
        self._add_removals(batch)
        active = [(ident, scope) for ident, scope in residence.scopes.items() if scope.active]
        for ident, scope in active:
            self.budget.free += scope.leased
            scope.spill(batch, running.store)
            residence.rest(ident, scope)
        residence.are_stored(ident for ident, scope in active if scope.stored)
        self.states_are_gone(erased_states)
        self.budget.free += sum(records.leased for records in residence.records.values())
        self.small.collect(batch, erased_states)
        running.changed.clear()
        self.due.written(whole=True)

    def _settle(self, scope: KeyScope, batch: Batch) -> None:
        is_new = not scope.stored
        self.residence.keep(scope, scope.settle(batch, self.running.store))
        if is_new and scope.stored:
            self.residence.are_stored([(scope.state_id, scope.key)])

    def _add_removals(self, batch: Batch) -> None:
        """Adds what goes from the store, without anything in its place."""
        residence = self.residence
        for state_id in residence.erased_states:
            for family in (Family.CELLS, Family.TIMES, Family.TAGS):
                prefix = state_prefix(family, state_id)
                batch.delete_range(prefix, prefix_end(prefix))
        for taken in residence.taken.values():
            for _, row, name in taken.values():
                batch.delete_timer(tag_row_of(row, name), row)
        for state_id, key in residence.erased:
            _erase_key(self.running.store, batch, state_id, key)
        residence.are_removed()


def _erase_key(store: Store, batch: Batch, state_id: int, key: bytes) -> None:
    """Adds to ``batch`` the removal of every row that ``store`` has of a key in one state.

    Reads one row per timer that is set; cells are not read.
    """
    cells = owner_prefix(Family.CELLS, state_id, key_group(key), key)
    tags, owner = tag_owner(cells), place_of_owner(cells)
    for row, time in store.iterate(tags, prefix_end(tags)):
        window, domain, family, tag = timer_of_owned_tag_row(row, len(tags))
        place = window_prefix(owner, window)
        batch.delete(time_row(state_id, domain, decode_i64(time), place + timer_name(family, tag)))
    delete_rows(store, batch, tags, prefix_end(tags))
    delete_rows(store, batch, cells, prefix_end(cells))
