"""The round of an overlay: what it changed, and how the store goes back to where it began."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn, cast

from timers_state.errors import RoundPrepared, StoreFailed

if TYPE_CHECKING:
    from timers_state.large.image import Image
    from timers_state.large.scope import KeyScope
    from timers_state.overlay.budget import MemoryBudget
    from timers_state.store.store import Batch, Store

_PREPARED: Final = (
    "the round was prepared: commit it or roll it back before anything else is asked of the overlay"
)


class _Sealed:
    """Stands in for the store while the round is prepared: every use is an error."""

    def __getattr__(self, name: str) -> NoReturn:
        raise RoundPrepared(_PREPARED)


_SEALED: Final = cast("Store", _Sealed())


class Round:
    """The changes since the last commit or rollback.

    Args:
        budget: images take their bytes from it.

    Attributes:
        store: what is read and written. It refuses every call between ``prepare`` and ``resume``.
        changed: the scopes that became active since the round began or wrote everything. Forgotten
            scopes stay in this list. It is always the same list.
        images: by state and key, what was committed and not written of scopes that changed.
        image_bytes: what the images cost in memory.
        erased_states: states of which the prepared batch leaves no row that it does not put.
        is_marked: whether the store has an undo point, since the round wrote to it.
        is_lost: whether writing failed, so that something that was committed may be gone.
    """

    def __init__(self, store: Store, budget: MemoryBudget) -> None:
        self.store = store
        self.changed: list[KeyScope] = []
        self.images: dict[tuple[int, bytes], Image] = {}
        self.image_bytes = 0
        self.erased_states: set[int] = set()
        self.is_marked = False
        self.is_lost = False
        self._budget = budget
        self._prepared: tuple[Store, Batch] | None = None

    def check(self) -> None:
        """Raises if the round is prepared, or if something that was committed is lost."""
        if self._prepared is not None:
            raise RoundPrepared(_PREPARED)
        if self.is_lost:
            message = (
                "what was committed and not written is lost, since writing failed before: the last "
                "snapshot has the state of its time"
            )
            raise StoreFailed(message)

    def has_changed(self) -> bool:
        """Whether a scope was used, or something written, since the round began."""
        return bool(self.changed or self.images or self.is_marked)

    def keep_aside(self, scope: KeyScope) -> None:
        """Keeps what was committed of a scope that is about to change."""
        image = scope.image()
        self.images[scope.state_id, scope.key] = image
        self.image_bytes += image.size
        self._budget.free -= image.size
        scope.unwritten = False

    def drop_images(self) -> None:
        """Drops all images."""
        self._budget.free += self.image_bytes
        self.image_bytes = 0
        self.images = {}

    def prepare(self, batch: Batch) -> None:
        """Ends the round: nothing but ``resume`` may follow. ``batch`` is what a commit writes."""
        self._prepared = (self.store, batch)
        self.store = _SEALED

    def resume(self) -> Batch | None:
        """Makes the store usable again; returns what was prepared, None if nothing was."""
        if self._prepared is None:
            return None
        self.store, batch = self._prepared
        self._prepared = None
        return batch

    def mark(self) -> None:
        """Makes sure that the store can go back to where the round began."""
        if not self.is_marked:
            self.store.mark()
            self.is_marked = True

    def unmark(self) -> None:
        """The round is over and stays."""
        if self.is_marked:
            self.store.unmark()
            self.is_marked = False

    def undo(self) -> None:
        """The round never was."""
        self.changed.clear()
        self.drop_images()
        if self.is_marked:
            self.is_marked = False
            self.store.undo()
