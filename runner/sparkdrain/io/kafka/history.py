"""Where a group of numbered records stands: owner, next number, and a digest of all before it.

Two writers with the same owner, number and digest have written the same records in the same order.
The digest is rolling: it is made of the digest before it and of one record.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from marshal import dumps
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from sparkdrain.io.kafka.records import ProducerRecord

OWNER_BYTES: Final = 8
DIGEST_BYTES: Final = 8
_STATE: Final = struct.Struct(">q8s8s")
_pack, _unpack = _STATE.pack, _STATE.unpack
_AT_OWNER: Final = _STATE.size - OWNER_BYTES - DIGEST_BYTES
# Of marshal: it has no references, so equal tuples have equal bytes.
_PLAIN: Final = 2


class RecordStamp(NamedTuple):
    """What a numbered record carries, so that it can be told from others with its number.

    Attributes:
        owner: the job that has numbered the record.
        before: the digest before the record.
        after: the digest with the record.
    """

    owner: bytes
    before: bytes
    after: bytes


class History(NamedTuple):
    """All records of an owner in one group, up to a number.

    Attributes:
        number: the number of the record that comes next.
        owner: random bytes, drawn when the group got its first record.
        digest: a digest of all records of the owner.
    """

    number: int
    owner: bytes
    digest: bytes

    @classmethod
    def begun(cls, number: int, owner: bytes) -> History:
        """A history without records, whose first one gets ``number``."""
        return cls(number, owner, _digest((owner, number)))

    def packed(self) -> bytes:
        """The history as state."""
        return _pack(*self)


def grow(state: bytes, record: ProducerRecord | None) -> tuple[int, bytes, bytes]:
    """Add a record to a packed history, or its end if the record is None.

    Works on bytes, since it runs once for each record: a `History` would double its cost.

    Returns:
        The number of the record, its stamp, and the packed history with the record.
    """
    number, owner, before = _unpack(state)
    after = _digest((before, None) if record is None else (before, *record))
    return number, state[_AT_OWNER:] + after, _pack(number + 1, owner, after)


def read_stamp(stamp: bytes) -> RecordStamp:
    """The parts of a stamp."""
    return RecordStamp(
        stamp[:OWNER_BYTES],
        stamp[OWNER_BYTES : OWNER_BYTES + DIGEST_BYTES],
        stamp[OWNER_BYTES + DIGEST_BYTES :],
    )


def _digest(content: tuple[Any, ...]) -> bytes:
    try:
        data = dumps(content, _PLAIN)
    except ValueError:
        # Numbers and texts of kinds of their own, and headers that are no plain tuples.
        data = repr(content).encode("utf-8", "backslashreplace")
    return blake2b(data, digest_size=DIGEST_BYTES).digest()
