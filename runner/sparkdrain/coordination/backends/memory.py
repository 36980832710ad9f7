"""A metadata store in this process; gone with it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from typing_extensions import override

from sparkdrain.coordination import backend
from sparkdrain.coordination.backend import StoreReach
from sparkdrain.coordination.metadata import (
    ANY,
    Handle,
    Keys,
    MetadataStore,
    OnCorrupt,
    Versioned,
    fail,
    version_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class SharedSpaces:
    """What handles on one store share."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    spaces: dict[str, dict[str, Versioned]] = field(default_factory=dict)
    versions: Iterator[int] = field(default_factory=count)


class Backend(backend.Backend):
    """See ``coordination.backend.Backend``. A place is any name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, SharedSpaces] = {}

    @override
    def place(self, text: str) -> str:
        return text

    @override
    def reach(self, place: str) -> StoreReach:
        return StoreReach.PROCESS

    @override
    def open(self, place: str) -> MemoryMetadataStore:
        with self._lock:
            return MemoryMetadataStore(self._records.setdefault(place, SharedSpaces()))


class MemoryMetadataStore(MetadataStore):
    """See ``MetadataStore``. Nothing survives the process."""

    def __init__(self, records: SharedSpaces | None = None) -> None:
        """Open a handle on ``records``, or on a new store."""
        self._records = SharedSpaces() if records is None else records
        self._handle = Handle("The metadata store")

    @override
    def get(self, namespace: str, key: str) -> Versioned | None:
        self._handle.check(namespace, key)
        return self._find(namespace, key)

    @override
    def put(self, namespace: str, key: str, value: bytes, version: str = ANY) -> str | None:
        self._handle.check(namespace, key)
        with self._records.lock:
            if not self._has(namespace, key, version):
                return None
            written = Versioned(bytes(value), str(next(self._records.versions)))
            self._records.spaces.setdefault(namespace, {})[key] = written
            return written.version

    @override
    def remove(self, namespace: str, key: str, version: str = ANY) -> bool:
        self._handle.check(namespace, key)
        with self._records.lock:
            if not self._has(namespace, key, version):
                return False
            self._records.spaces.get(namespace, {}).pop(key, None)
            return True

    @override
    def all(
        self, namespace: str, on_corrupt: OnCorrupt = fail, without: Keys = (), prefix: str = ""
    ) -> dict[str, Versioned]:
        self._handle.check(namespace)
        with self._records.lock:
            records = self._records.spaces.get(namespace, {})
            return {
                key: found
                for key, found in records.items()
                if key.startswith(prefix) and key not in without
            }

    @override
    def close(self) -> None:
        self._handle.close()

    def _find(self, namespace: str, key: str) -> Versioned | None:
        return self._records.spaces.get(namespace, {}).get(key)

    def _has(self, namespace: str, key: str, version: str) -> bool:
        return version in (ANY, version_of(self._find(namespace, key)))
