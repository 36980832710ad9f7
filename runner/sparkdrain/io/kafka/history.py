"""Where a group of numbered records stands: owner, next number, and a digest of all before it.

Two writers with the same owner, number and digest have written the same records in the same order.
The digest is rolling: it is made of the digest before it and of one record.
"""

from __future__ import annotations

import hashlib
import marshal
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from sparkdrain.io.kafka.records import ProducerRecord

OWNER_BYTES: Final = 8
DIGEST_BYTES: Final = 8
_STATE: Final = struct.Struct(">q8s8s")
# Of marshal: it has no references, so equal tuples have equal bytes.
_PLAIN: Final = 2


class Stamp(NamedTuple):
    """What a numbered record carries, so that it can be told from others with its number.

    Attributes:
        owner: of the history.
        before: the digest before the record.
        after: the digest with the record.
    """

    owner: bytes
    before: bytes
    after: bytes


class History(NamedTuple):
    """All records of an owner in one group, up to a number.

    Attributes:
        number: of the record that comes next.
        owner: random bytes, drawn when the group got its first record.
        digest: of all records of the owner.
    """

    number: int
    owner: bytes
    digest: bytes

    @classmethod
    def begun(cls, number: int, owner: bytes) -> History:
        """A history without records, whose first one gets ``number``."""
        return cls(number, owner, _digest((owner, number)))

    def grown(self, record: ProducerRecord | None) -> tuple[History, bytes]:
        """The history with one more record, or its end, and the stamp of that as bytes."""
        digest = _digest((self.digest, None) if record is None else (self.digest, *record))
        stamp = self.owner + self.digest + digest
        return History(self.number + 1, self.owner, digest), stamp

    def packed(self) -> bytes:
        """The history as state."""
        return _STATE.pack(*self)

    @classmethod
    def unpacked(cls, state: bytes) -> History:
        """What ``packed`` made bytes of."""
        return cls(*_STATE.unpack(state))


def read_stamp(stamp: bytes) -> Stamp:
    """The parts of a stamp."""
    return Stamp(
        stamp[:OWNER_BYTES],
        stamp[OWNER_BYTES : OWNER_BYTES + DIGEST_BYTES],
        stamp[OWNER_BYTES + DIGEST_BYTES :],
    )


def _digest(content: tuple[Any, ...]) -> bytes:
    try:
        data = marshal.dumps(content, _PLAIN)
    except ValueError:
        # Numbers and texts of kinds of their own, and headers that are no plain tuples.
        data = repr(content).encode("utf-8", "backslashreplace")
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()
