"""A metadata store in this process; gone with it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from typing_extensions import override

from sparkdrain.coordination import backend
from sparkdrain.coordination.metadata import MetadataStore, checked

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sparkdrain.coordination.metadata import CorruptRecord


@dataclass(slots=True)
class SharedSpaces:
    """What handles on one store share."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    spaces: dict[str, dict[str, bytes]] = field(default_factory=dict)


class Backend(backend.Backend):
    """See ``coordination.backend.Backend``. A place is any name."""

    is_shared = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, SharedSpaces] = {}

    @override
    def place(self, text: str) -> str:
        return text

    @override
    def exists(self, place: str) -> bool:
        return True

    @override
    def prepare(self, place: str, *, group: bool) -> list[str]:
        return []

    @override
    def open(self, place: str) -> MemoryMetadataStore:
        with self._lock:
            return MemoryMetadataStore(self._records.setdefault(place, SharedSpaces()))


class MemoryMetadataStore(MetadataStore):
    """See ``MetadataStore``. Nothing survives the process, whatever ``flush`` is asked for."""

    def __init__(self, records: SharedSpaces | None = None) -> None:
        """Open a handle on ``records``, or on a new store."""
        self._records = SharedSpaces() if records is None else records
        self._closed = False

    @override
    def put(self, namespace: str, key: str, value: bytes) -> None:
        self._check(namespace, key, value)
        with self._records.lock:
            self._write(namespace, key, value)

    @override
    def get(self, namespace: str, key: str) -> bytes | None:
        self._check(namespace, key)
        return self._records.spaces.get(namespace, {}).get(key)

    @override
    def all(
        self,
        namespace: str,
        on_corrupt: Callable[[CorruptRecord], object] | None = None,
        without: Collection[str] = frozenset(),
    ) -> dict[str, bytes]:
        self._check(namespace)
        with self._records.lock:
            records = self._records.spaces.get(namespace, {})
            return {key: value for key, value in records.items() if key not in without}

    @override
    def remove(self, namespace: str, key: str) -> None:
        self._check(namespace, key)
        with self._records.lock:
            self._write(namespace, key, None)

    @override
    def compare_and_set(
        self, namespace: str, key: str, expected: bytes | None, value: bytes | None
    ) -> bool:
        self._check(namespace, key, value)
        with self._records.lock:
            if self._records.spaces.get(namespace, {}).get(key) != expected:
                return False
            self._write(namespace, key, value)
            return True

    @override
    def flush(self) -> None:
        self._check("any")

    @override
    def close(self) -> None:
        self._closed = True

    def _write(self, namespace: str, key: str, value: bytes | None) -> None:
        space = self._records.spaces.setdefault(namespace, {})
        if value is None:
            space.pop(key, None)
        else:
            space[key] = bytes(value)

    def _check(self, namespace: str, key: str | None = None, value: bytes | None = None) -> None:
        if self._closed:
            message = "The metadata store is closed."
            raise ValueError(message)
        checked(namespace, key, value)
