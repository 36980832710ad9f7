"""The contract of a metadata store: small records in namespaces, kept beyond one run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

from sparkdrain.errors import SparkDrainError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

LARGEST_VALUE: Final = 512 * 1024
"""Bytes; what every backend that we know of can take as one record."""

LONGEST_KEY: Final = 512
"""Bytes of a key in UTF-8."""

_NAMESPACE: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")


class MetadataError(SparkDrainError):
    """A metadata store did not do what it was asked to do; names the store."""


class StoreDown(MetadataError):
    """The store cannot be reached, read or written now; the same may work later."""


class CorruptRecord(MetadataError):
    """A record is there, but is not what was written; names it. Others can still be read."""


class MetadataStore(Protocol):
    """Records by namespace and key; every handle on the same store sees the same records.

    Each call takes effect at once and as a whole, or raises and has none that lasts. A record that
    was put is there after the process that put it has crashed; after ``flush`` also if the machine
    has. Thread-safe. ``tests/coordination`` holds every backend to this.

    All methods raise ``StoreDown`` if the store cannot be used now, and ``ValueError`` if it is
    closed, or if the namespace, the key or the value is none that a store takes: see ``checked``.
    """

    def put(self, namespace: str, key: str, value: bytes) -> None:
        """Write a record, over the one that may be there."""

    def get(self, namespace: str, key: str) -> bytes | None:
        """The record; None if there is none.

        Raises:
            CorruptRecord: it is there and cannot be read.
        """

    def all(
        self,
        namespace: str,
        on_corrupt: Callable[[CorruptRecord], object] | None = None,
        without: Collection[str] = frozenset(),
    ) -> dict[str, bytes]:
        """All records of the namespace by key.

        Args:
            namespace: which one.
            on_corrupt: takes the error of each record that cannot be read and is left out.
            without: keys of records to leave out, which the caller knows already.

        Raises:
            CorruptRecord: a record cannot be read, and there is no ``on_corrupt``.
        """

    def remove(self, namespace: str, key: str) -> None:
        """Remove the record, readable or not, if it is there."""

    def compare_and_set(
        self, namespace: str, key: str, expected: bytes | None, value: bytes | None
    ) -> bool:
        """Write ``value`` if the record is ``expected``; None stands for no record.

        Returns:
            Whether the record was ``expected``; if not, nothing has changed. Of several that
            expect the same, exactly one is told so.

        Raises:
            CorruptRecord: the record is there and cannot be read.
        """

    def flush(self) -> None:
        """Return when everything that was written survives a crash of the machine."""

    def close(self) -> None:
        """Let go of this handle; others are not affected. A second call does nothing."""


def checked(namespace: str, key: str | None = None, value: bytes | None = None) -> None:
    """Return if a store takes these.

    Raises:
        ValueError: says what a store takes.
    """
    if not _NAMESPACE.fullmatch(namespace):
        message = (
            f"{namespace!r} is no namespace: it has 1 to 63 of a-z, 0-9, '.' and '-', and begins "
            "with a letter or a digit."
        )
        raise ValueError(message)
    if key is not None and not 0 < len(key.encode()) <= LONGEST_KEY:
        message = f"A key has 1 to {LONGEST_KEY} bytes in UTF-8, not {len(key.encode())}."
        raise ValueError(message)
    if value is not None and len(value) > LARGEST_VALUE:
        message = f"A record has at most {LARGEST_VALUE} bytes, not {len(value)}."
        raise ValueError(message)
