"""What an exception of RocksDB means: rocksdict raises plain ``Exception`` with a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from timers_state.errors import StateError, StoreCorrupt, StoreFailed, StoreLocked

if TYPE_CHECKING:
    from pathlib import Path

_LOCKED: Final = ("lock hold by current process", "While lock file")
_DAMAGED: Final = ("Corruption", "create_if_missing is false", "No such file")


def failure(error: Exception, what: str, directory: Path) -> StateError:
    """The error to raise when the store in ``directory`` could not be ``what`` ("read", ...)."""
    text = str(error)
    if any(sign in text for sign in _LOCKED):
        return StoreLocked(
            f"the store {directory} is open elsewhere, in this process or another: close it there, "
            f"or wait until that process has ended ({text})"
        )
    if any(sign in text for sign in _DAMAGED):
        return StoreCorrupt(
            f"the store {directory} is damaged and could not be {what}: restore it from a copy "
            f"({text})"
        )
    return StoreFailed(f"the store {directory} could not be {what}: {text}")
