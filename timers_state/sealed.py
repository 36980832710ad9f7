"""What stands in for the store of an overlay whose round was prepared: every use is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from timers_state.errors import RoundPrepared

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from timers_state.store import Batch

_MESSAGE: Final = (
    "the round was prepared: commit it or roll it back before anything else is asked of the overlay"
)


def refuse() -> NoReturn:
    """Raises ``RoundPrepared``."""
    raise RoundPrepared(_MESSAGE)


class SealedStore:
    """A ``Store`` that refuses."""

    @property
    def sequence(self) -> int:
        """Raises."""
        refuse()

    def get(self, row: bytes) -> NoReturn:
        """Raises."""
        del row
        refuse()

    def multi_get(self, rows: Sequence[bytes]) -> NoReturn:
        """Raises."""
        del rows
        refuse()

    def iterate(self, lower: bytes, upper: bytes) -> NoReturn:
        """Raises."""
        del lower, upper
        refuse()

    def iterate_rows(self, lower: bytes, upper: bytes) -> NoReturn:
        """Raises."""
        del lower, upper
        refuse()

    def read_prefixes(self, prefixes: Sequence[bytes], most: int, most_bytes: int) -> NoReturn:
        """Raises."""
        del prefixes, most, most_bytes
        refuse()

    def write(self, batch: Batch) -> NoReturn:
        """Raises."""
        del batch
        refuse()

    def mark(self) -> None:
        """Raises."""
        refuse()

    def unmark(self) -> None:
        """Raises."""
        refuse()

    def undo(self) -> None:
        """Raises."""
        refuse()

    def snapshot(self, directory: Path) -> None:
        """Raises."""
        del directory
        refuse()

    def flush(self) -> None:
        """Raises."""
        refuse()

    def close(self) -> None:
        """Raises."""
        refuse()


SEALED: Final = SealedStore()
