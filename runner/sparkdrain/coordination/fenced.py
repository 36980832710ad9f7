"""Records that only the newest leader writes.

Each of these records begins with the fencing token of the leader that has written it last. A leader
writes if the record has no newer token, and if it still has the version that was read. So a leader
that was paused changes nothing once the next one has written. The next leader calls ``claim``
before it relies on what a record says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sparkdrain.coordination.metadata import ABSENT, CorruptRecord
from sparkdrain.errors import Fenced

if TYPE_CHECKING:
    from sparkdrain.coordination.metadata import MetadataStore

_END: Final = b"\n"


@dataclass(frozen=True, slots=True)
class FencedValue:
    """What a record of a leader says.

    Attributes:
        value: as the leader has written it.
        token: the fencing token of the leader that wrote it; 0 if there is no record.
        version: the store's mark of the record as it was found; a write names it.
    """

    value: bytes
    token: int
    version: str


class FencedRecord:
    """One record that leaders write, and everybody reads.

    Its methods raise ``StoreDown`` if the store cannot be used now.

    Args:
        store: where it is.
        namespace: the group of records in the store that it belongs to.
        key: its name within the namespace.
    """

    def __init__(self, store: MetadataStore, namespace: str, key: str) -> None:
        self._store = store
        self._namespace = namespace
        self._key = key

    def read(self) -> FencedValue:
        """What it says; the empty value if it is not there.

        Raises:
            CorruptRecord: it carries no token.
        """
        found = self._store.get(self._namespace, self._key)
        if found is None:
            return FencedValue(b"", 0, ABSENT)
        head, end, value = found.value.partition(_END)
        if not end or not head.isdigit():
            message = f"The record {self._key!r} in {self._namespace!r} carries no fencing token"
            raise CorruptRecord(message)
        return FencedValue(value, int(head), found.version)

    def claim(self, token: int) -> FencedValue:
        """Read it, and let no older leader write it from now on.

        Raises:
            Fenced: a newer leader has claimed it.
        """
        while True:
            found = self.read()
            if found.token == token:
                return found
            if (version := self._put(found, token, found.value)) is not None:
                return FencedValue(found.value, token, version)

    def write(self, found: FencedValue, token: int, value: bytes) -> FencedValue:
        """Write it if it is as it was found.

        Args:
            found: what ``read``, ``claim`` or ``write`` has returned.
            token: this leader's fencing token.
            value: to write.

        Raises:
            Fenced: another process has written since then, or a newer leader had before. If the
                answer to an earlier write of this leader was lost, that may be the other process:
                ``claim`` it again.
        """
        version = self._put(found, token, value)
        if version is None:
            message = (
                f"The record {self._key!r} in {self._namespace!r} was written by another process "
                f"since this one, the leader with token {token}, has read it"
            )
            raise Fenced(message)
        return FencedValue(value, token, version)

    def _put(self, found: FencedValue, token: int, value: bytes) -> str | None:
        if found.token > token:
            message = (
                f"The leader with token {token} was followed by another, with token {found.token}: "
                f"it cannot write {self._key!r} in {self._namespace!r}"
            )
            raise Fenced(message)
        data = str(token).encode() + _END + value
        return self._store.put(self._namespace, self._key, data, found.version)
