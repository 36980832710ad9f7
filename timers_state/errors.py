"""The kinds of failure of a store; the kind is the type, the text names path and way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

# In the texts of the plain ``Exception``s that rocksdict raises.
_LOCKED: Final = ("lock hold by current process", "While lock file")
_DAMAGED: Final = ("Corruption", "create_if_missing is false", "No such file")


class StateError(Exception):
    """Base of every failure that timers_state raises on purpose."""


class StoreLocked(StateError):
    """Another store object, in this process or another one, has the directory open."""


class StoreCorrupt(StateError):
    """Bytes on disk are missing or are not those that were written; nothing read is to be used."""


class StoreFailed(StateError):
    """The store could not do what was asked (disk full, no permission, input or output error)."""


class StoreClosed(StateError):
    """The store was closed; also raised by iterators that were still open then."""


class NotAStore(StateError):
    """The directory holds something, but no store of this library."""


class FormatTooNew(StateError):
    """A newer release of this library wrote the store; this one cannot know what its bytes mean."""


class FormatTooOld(StateError):
    """A store of an older format can neither be read as it is nor be brought to this one."""


class MalformedRow(StateError):
    """A key or value does not follow the layouts of this library."""


class StaleScope(StateError):
    """A scope, or a cell of it, was used after it was forgotten, released or its overlay closed."""


class RoundPrepared(StateError):
    """An overlay whose round was prepared was used before that was committed or rolled back."""


class Unmovable(StateError):
    """State is where it should not be, so it cannot be told where it is to go; names the state."""


class KindMismatch(StateError):
    """One tag was opened as two kinds of cell."""


def failure(error: Exception, what: str, directory: Path) -> StateError:
    """What to raise if RocksDB says that the store could not be ``what`` ("read", ...)."""
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
