"""A metadata store for values of any size, above one whose records have a limit."""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from sparkdrain.coordination.metadata import (
    ABSENT,
    ANY,
    CorruptRecord,
    Keys,
    MetadataStore,
    OnCorrupt,
    Versioned,
    fail,
    pass_over,
    version_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection

PARTS: Final = "sparkdrain-parts-v1"
"""The namespace of parts. Their keys are a digest of the record's name, a random number for each
write, and the number of the part."""

_WHOLE: Final = b"w"
_CUT: Final = b"c"


class LargeValues(MetadataStore):
    """See ``MetadataStore``. Cuts values that are too large for one record of another store.

    A record of the other store begins with a letter: it holds the value itself, or tells how many
    parts there are and what they add up to. A write puts parts first, then the record, and then
    removes the parts that were there before it began. So a reader finds the parts of the record
    that it has read, or a newer record. Parts that a crashed writer has left are removed by the
    next writer of that record.

    Args:
        store: keeps the records.
        limit: bytes that ``store`` takes as one record.
    """

    def __init__(self, store: MetadataStore, limit: int) -> None:
        self._store = store
        self._room = limit - len(_WHOLE)
        # Versions of records that this handle has written whole: there are no parts to remove.
        self._whole: dict[tuple[str, str], str] = {}

    @override
    def get(self, namespace: str, key: str) -> Versioned | None:
        found = self._store.get(namespace, key)
        while found is not None:
            value = self._joined(namespace, key, found.value)
            if value is not None:
                return Versioned(value, found.version)
            before, found = found, self._store.get(namespace, key)
            if version_of(found) == before.version:
                message = f"The record {key!r} in {namespace!r} is damaged: parts of it are missing"
                raise CorruptRecord(message)
        return None

    @override
    def put(self, namespace: str, key: str, value: bytes, version: str = ANY) -> str | None:
        if self._whole.get((namespace, key)) == version and len(value) <= self._room:
            return self._put_whole(namespace, key, value, version)
        before = self._parts(namespace, key)
        write = self._put_whole if len(value) <= self._room else self._put_cut
        written = write(namespace, key, value, version)
        if written is not None:
            self._remove_parts(before)
        return written

    @override
    def remove(self, namespace: str, key: str, version: str = ANY) -> bool:
        before = self._parts(namespace, key)
        removed = self._store.remove(namespace, key, version)
        if removed:
            self._whole.pop((namespace, key), None)
            self._remove_parts(before)
        return removed

    @override
    def all(
        self, namespace: str, on_corrupt: OnCorrupt = fail, without: Keys = (), prefix: str = ""
    ) -> dict[str, Versioned]:
        records = {}
        found = self._store.all(namespace, on_corrupt, without, prefix)
        for key, record in found.items():
            try:
                value = self._joined(namespace, key, record.value)
                whole = (
                    self.get(namespace, key) if value is None else Versioned(value, record.version)
                )
            except CorruptRecord as error:
                on_corrupt(error)
                continue
            if whole is not None:  # else it was removed meanwhile
                records[key] = whole
        return records

    @override
    def close(self) -> None:
        self._store.close()

    def _put_whole(self, namespace: str, key: str, value: bytes, version: str) -> str | None:
        written = self._store.put(namespace, key, _WHOLE + value, version)
        if written is not None:
            self._whole[namespace, key] = written
        return written

    def _put_cut(self, namespace: str, key: str, value: bytes, version: str) -> str | None:
        # Another writer may take these parts for left ones, and removes them when it has written.
        # So the record that names them depends on the version from before they were put.
        while version == ANY:
            found = version_of(self._store.get(namespace, key))
            written = self._put_cut(namespace, key, value, found)
            if written is not None:
                return written
        folder = f"{_digest(namespace, key)}/{secrets.token_hex(8)}"
        parts = range(-(-len(value) // self._room))
        for part in parts:
            chunk = value[part * self._room : (part + 1) * self._room]
            self._store.put(PARTS, f"{folder}/{part}", chunk, ABSENT)
        told = {"folder": folder, "parts": len(parts), "sha256": hashlib.sha256(value).hexdigest()}
        written = self._store.put(namespace, key, _CUT + json.dumps(told).encode(), version)
        if written is None:
            self._remove_parts({f"{folder}/{part}" for part in parts})
        else:
            self._whole.pop((namespace, key), None)
        return written

    def _joined(self, namespace: str, key: str, data: bytes) -> bytes | None:
        """The value; None if parts of it are gone, because the record was replaced or is damaged.

        Raises:
            CorruptRecord: the record is none that this class has written.
        """
        if data[:1] == _WHOLE:
            return data[1:]
        message = f"The record {key!r} in {namespace!r} is damaged: its first byte tells no form"
        if data[:1] != _CUT:
            raise CorruptRecord(message)
        try:
            told = json.loads(data[1:])
            folder, parts, digest = told["folder"], told["parts"], told["sha256"]
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptRecord(message) from error
        found = (self._store.get(PARTS, f"{folder}/{part}") for part in range(parts))
        value = b"".join(part.value for part in found if part is not None)
        return value if hashlib.sha256(value).hexdigest() == digest else None

    def _parts(self, namespace: str, key: str) -> set[str]:
        return set(self._store.all(PARTS, pass_over, prefix=_digest(namespace, key)))

    def _remove_parts(self, parts: Collection[str]) -> None:
        for part in parts:
            self._store.remove(PARTS, part)


def _digest(namespace: str, key: str) -> str:
    return hashlib.sha256(f"{namespace}\x00{key}".encode()).hexdigest()[:32]
