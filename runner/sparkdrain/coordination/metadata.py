"""The contract of a metadata store: records with versions in namespaces, kept beyond one run."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, NoReturn, Protocol, TypeAlias

from sparkdrain.errors import SparkDrainError

ANY: Final = "*"
"""Stands for every version, and for no record."""

ABSENT: Final = ""
"""The version of a record that is not there."""

LONGEST_KEY: Final = 512
"""Bytes of a key in UTF-8."""

_NAMESPACE: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")


class MetadataError(SparkDrainError):
    """A metadata store did not do what it was asked to do; names the store."""


class StoreDown(MetadataError):
    """The store cannot be reached, read or written now; the same may work later."""


class CorruptRecord(MetadataError):
    """A record is there, but is not what was written; names it. Others can still be read."""


OnCorrupt: TypeAlias = Callable[[CorruptRecord], object]
"""Takes the error of each record that cannot be read and is left out."""

Keys: TypeAlias = Collection[str]


def fail(error: CorruptRecord) -> NoReturn:
    """An ``OnCorrupt`` that leaves no record out."""
    raise error


def pass_over(error: object) -> None:
    """An ``OnCorrupt`` that leaves records out and says nothing."""


@dataclass(frozen=True, slots=True)
class Versioned:
    """A record as a store has it.

    Attributes:
        value: what was put.
        version: names the write that has put it. No two writes of a key have the same version,
            also if the record was removed in between.
    """

    value: bytes
    version: str


def version_of(found: Versioned | None) -> str:
    """The version of what ``get`` has found, for the ``put`` or ``remove`` that depends on it."""
    return ABSENT if found is None else found.version


class MetadataStore(Protocol):
    """Records by namespace and key; every handle on the same store sees the same records.

    Each call takes effect at once and as a whole, or raises. A call that raises ``StoreDown`` may
    have taken effect, or may take effect later. When ``put`` or ``remove`` returns, what it did
    survives a crash of the process and of the machine, unless the store is in a process's memory.
    A value may be of any size. Thread-safe. ``tests/coordination`` holds every backend to this.

    All methods raise ``StoreDown`` if the store cannot be used now, and ``ValueError`` if it is
    closed, or if the namespace or the key is none that a store takes: see ``Handle``.
    """

    def get(self, namespace: str, key: str) -> Versioned | None:
        """The record; None if there is none.

        Raises:
            CorruptRecord: it is there and cannot be read.
        """

    def put(self, namespace: str, key: str, value: bytes, version: str = ANY) -> str | None:
        """Write a record if the one that is there has the version.

        Args:
            namespace: the group of records that it belongs to.
            key: its name within the namespace.
            value: the new content.
            version: as ``get``, ``all`` or ``put`` has told it; ``ABSENT`` if no record may be
                there; ``ANY`` to write over whatever is there.

        Returns:
            The version of the record now; None if it had another, and nothing has changed. Of
            several calls with the same version other than ``ANY``, one at most writes.

        Raises:
            CorruptRecord: a version was asked for, and the record is there and cannot be read.
        """

    def remove(self, namespace: str, key: str, version: str = ANY) -> bool:
        """Remove a record if it has the version; with ``ANY``, readable or not, if it is there.

        Returns:
            Whether it had the version; if not, nothing has changed.

        Raises:
            CorruptRecord: as ``put``.
        """

    def all(
        self, namespace: str, on_corrupt: OnCorrupt = fail, without: Keys = (), prefix: str = ""
    ) -> dict[str, Versioned]:
        """All records of the namespace by key.

        Args:
            namespace: which one.
            on_corrupt: see ``OnCorrupt``.
            without: keys of records to leave out, which the caller knows already.
            prefix: what the keys begin with.

        Raises:
            CorruptRecord: a record cannot be read, and ``on_corrupt`` is ``fail``.
        """

    def close(self) -> None:
        """Let go of this handle; others are not affected. A second call does nothing."""


class Handle:
    """Whether one handle on a store is open, and what every store takes.

    Attributes:
        store: names the store, at the beginning of a sentence.
    """

    def __init__(self, store: str) -> None:
        self.store = store
        self._is_closed = False

    def check(self, namespace: str, key: str | None = None) -> None:
        """Return if the handle is open and a store takes these.

        Raises:
            ValueError: the handle is closed; or says what a store takes.
        """
        if self._is_closed:
            message = f"{self.store} is closed."
            raise ValueError(message)
        if not _NAMESPACE.fullmatch(namespace):
            message = (
                f"{namespace!r} is no namespace: it has 1 to 63 of a-z, 0-9, '.' and '-', and "
                "begins with a letter or a digit."
            )
            raise ValueError(message)
        if key is not None and not 0 < len(key.encode()) <= LONGEST_KEY:
            message = f"A key has 1 to {LONGEST_KEY} bytes in UTF-8, not {len(key.encode())}."
            raise ValueError(message)

    def close(self) -> bool:
        """Close the handle; whether it was open."""
        was_open, self._is_closed = not self._is_closed, True
        return was_open
