"""What an overlay has more when its changes come in rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timers_state.due_index import DueIndex
from timers_state.keys import Domain

if TYPE_CHECKING:
    from timers_state.due_index import Memory
    from timers_state.image import Image
    from timers_state.records import Records
    from timers_state.scope import KeyScope
    from timers_state.store import Batch, Store


class Rounds:
    """The round that is running or prepared, and the timers across keys.

    ``prepared`` has the store and what is to be written to it, between ``prepare`` and its end, and
    ``erased_states`` of which states that leaves nothing but what it has;
    ``changed`` the scopes that became active since it began or wrote everything, also those
    forgotten after; ``images`` what was committed, and not written, of keys that it changed;
    ``marked`` whether the round has written to the store already; ``records`` the keys that are
    kept as records, by state.
    """

    __slots__ = (
        "_indexes",
        "changed",
        "erased_states",
        "image_bytes",
        "images",
        "marked",
        "prepared",
        "records",
    )

    def __init__(self) -> None:
        self.prepared: tuple[Store, Batch] | None = None
        self.erased_states: set[int] = set()
        self.changed: list[KeyScope] = []
        self.images: dict[tuple[int, bytes], Image] = {}
        self.image_bytes = 0
        self.marked = False
        self.records: dict[int, Records] = {}
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

    def drop_all(self, state_id: int) -> None:
        """All keys of a state were forgotten."""
        for (state, _), index in self._indexes.items():
            if state == state_id:
                index.drop_all()

    def written(self, *, whole: bool) -> None:
        """Something in memory is about to be in the store; all of it if ``whole``."""
        for index in self._indexes.values():
            index.written(whole=whole)

    def drop_images(self) -> int:
        """Drops all images; returns what they cost, in bytes."""
        size, self.image_bytes = self.image_bytes, 0
        self.images = {}
        return size

    def mark(self, store: Store) -> None:
        """Makes sure that the store can go back to where the round began."""
        if not self.marked:
            store.mark()
            self.marked = True

    def unmark(self, store: Store) -> None:
        """The round is over and stays."""
        if self.marked:
            store.unmark()
            self.marked = False

    def undo(self, store: Store) -> None:
        """The round never was."""
        self.changed.clear()
        self.drop_images()
        for index in self._indexes.values():
            index.restart()
        if self.marked:
            self.marked = False
            store.undo()
