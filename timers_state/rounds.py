"""What an overlay has more when its changes come in rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timers_state.cells.cell import GONE_MESSAGE
from timers_state.due_index import DueIndex
from timers_state.errors import StaleScope
from timers_state.keys import I64_MAX, I64_MIN, Domain, encode_i64
from timers_state.scope import KeyScope
from timers_state.timers import Timers

if TYPE_CHECKING:
    from timers_state.due_index import Memory
    from timers_state.store import Batch, Store


class Rounds:
    """The round that is running or prepared, and the timers across keys.

    ``prepared`` has the store and what is to be written to it, between ``prepare`` and its end.
    """

    __slots__ = ("_indexes", "_marked", "prepared")

    def __init__(self) -> None:
        self.prepared: tuple[Store, Batch] | None = None
        self._marked = False
        self._indexes: dict[tuple[int, Domain], DueIndex] = {}

    def index(self, memory: Memory, state_id: int, domain: Domain) -> DueIndex:
        """The timers of all keys of a state that follow one clock."""
        index = self._indexes.get((state_id, domain))
        if index is None:
            index = self._indexes[state_id, domain] = DueIndex(memory, state_id, domain)
        return index

    def drop(self, state_id: int, key: bytes) -> None:
        """A key was forgotten."""
        for domain in Domain:
            index = self._indexes.get((state_id, domain))
            if index is not None:
                index.drop(key)

    def written(self) -> None:
        """Everything in memory is about to be in the store."""
        for index in self._indexes.values():
            index.written()

    def mark(self, store: Store) -> None:
        """Makes sure that the store can go back to where the round began."""
        if not self._marked:
            store.mark()
            self._marked = True

    def unmark(self, store: Store) -> None:
        """The round is over and stays."""
        if self._marked:
            store.unmark()
            self._marked = False

    def undo(self, store: Store) -> None:
        """The round never was."""
        for index in self._indexes.values():
            index.restart()
        if self._marked:
            self._marked = False
            store.undo()


class RoundScope(KeyScope):
    """A scope whose timers are also found across keys."""

    __slots__ = ()

    def timers(self, domain: Domain) -> Timers:
        """See ``KeyScope``."""
        timers = self._timers.get(domain)
        if timers is None:
            if not self.active:
                self.lease()
                timers = self._timers.get(domain)
            if timers is None:
                timers = self._timers[domain] = RoundTimers(self, domain, self.stored)
        return timers

    def index(self, domain: Domain) -> DueIndex:
        """Where the timers of the domain are found across keys."""
        if self._overlay is None:
            raise StaleScope(GONE_MESSAGE)
        return self._overlay.index_of(self.state_id, domain)


class RoundTimers(Timers):
    """Timers of one key that are also found across keys."""

    __slots__ = ("_index",)

    def __init__(self, scope: RoundScope, domain: Domain, stored: bool) -> None:
        super().__init__(scope, domain, stored)
        self._index = scope.index(domain)

    def set(
        self, time: int, family: bytes, tag: bytes = b"", window: bytes = b"", payload: bytes = b""
    ) -> None:
        """See ``Timers``."""
        if not I64_MIN <= time <= I64_MAX:
            encode_i64(time)
        # Before the change, since that may write everything out: the index has to know then.
        self._index.note(time, self._scope.group, self._scope.key)
        super().set(time, family, tag, window, payload)
