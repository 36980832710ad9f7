"""Writing exactly once: which records of a group are to be published, and whether at all.

Records for Kafka are numbered, in groups, in the state of the job. Once a checkpoint has them they
are published in a transaction. The transaction also commits, as an offset of a consumer group, the
number that comes next, with a note of the owner and a digest of everything published. So the
brokers know how far publishing went, whichever process crashed; and a job knows whether it has
published that itself.

Two writers with the same owner, number and digest have written the same records in the same order.
The digest is rolling: it is made of the digest before it and of one record.

This is the core alone: it does no I/O.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from hashlib import blake2b
from marshal import dumps
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sparkdrain.io.kafka.note import Note, OwnerStage, Recorded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparkdrain.io.kafka.records import ProducerRecord

OWNER_BYTES: Final = 8
DIGEST_BYTES: Final = 8
_STATE: Final = struct.Struct(">q8s8s")
_STAMP: Final = struct.Struct("8s8s8s")
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
    return RecordStamp(*_STAMP.unpack(stamp))


def _digest(content: tuple[Any, ...]) -> bytes:
    try:
        data = dumps(content, _PLAIN)
    except ValueError:
        # Numbers and texts of kinds of their own, and headers that are no plain tuples.
        data = repr(content).encode("utf-8", "backslashreplace")
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


@dataclass(frozen=True, slots=True)
class NumberedRecords:
    """Numbered records of a group that a published checkpoint has; without gaps, in order.

    Attributes:
        first: number of the first record.
        stamps: one for each record. A record that was numbered by a release without stamps has
            None; such records come before all others.
        more: whether further records may come that the same checkpoint has.
    """

    first: int
    stamps: Sequence[RecordStamp | None]
    more: bool = False

    @property
    def next(self) -> int:
        """The number that follows the last record."""
        return self.first + len(self.stamps)

    @property
    def owner(self) -> bytes | None:
        """The owner of the last record."""
        last = self.stamps[-1]
        return None if last is None else last.owner

    @property
    def is_beginning(self) -> bool:
        """Whether the first record is the first one of its owner."""
        first = self.stamps[0]
        if first is None:
            return False
        return first.before == History.begun(self.first, first.owner).digest

    def digest_at(self, number: int) -> bytes | None:
        """The digest before the record with a number, which may be the one that comes next."""
        if number == self.first:
            first = self.stamps[0]
            return None if first is None else first.before
        before = self.stamps[number - self.first - 1]
        return None if before is None else before.after


class Refusal(enum.Enum):
    """Why nothing may be published."""

    FORGOTTEN = "forgotten"
    """The brokers have no record, and had one."""
    GAP = "gap"
    """The brokers have less than was published before."""
    FOREIGN = "foreign"
    """Another owner has the group now."""
    OLDER = "older"
    """The brokers have more than the checkpoint that the job goes on from."""
    DIVERGED = "diverged"
    """The brokers have other records under the same numbers."""
    UNREADABLE = "unreadable"
    """The note is none of ours, or of a later release."""
    OPEN = "open"
    """A job that begins anew finds what another one has published, and is not done with."""


def decide(batch: NumberedRecords, recorded: Recorded | None) -> range | Refusal:
    """What to publish: the numbers, which may be none; or why nothing may be published.

    Args:
        batch: what came.
        recorded: what the brokers have, read after the fence. A group is recorded before its
            first record is published; None says that the brokers have forgotten it.
    """
    if recorded is None:
        # An earlier release has recorded nothing before its first record.
        is_first = batch.first == 0 and batch.stamps[0] is None
        return range(batch.next) if is_first else Refusal.FORGOTTEN
    if recorded.is_bare:
        return _after_bare(batch, recorded.number)
    note = recorded.note()
    if note is None:
        return Refusal.UNREADABLE
    return _after_note(batch, recorded.number, note)


def _after_bare(batch: NumberedRecords, number: int) -> range | Refusal:
    """An earlier release has published up to ``number``, and has compared numbers only."""
    if number < batch.first:
        return Refusal.GAP
    if number > batch.next:
        return _all_there(batch)
    if number > batch.first and batch.stamps[number - batch.first - 1] is not None:
        # That release has not made these records.
        return Refusal.FOREIGN
    return range(number, batch.next)


def _after_note(batch: NumberedRecords, number: int, note: Note) -> range | Refusal:
    if batch.owner is None:
        # Records of an earlier release come again; what follows them was published already.
        return _all_there(batch) if number > batch.next else Refusal.OLDER
    owner, digest = note.owner, note.digest
    if owner != batch.owner:
        # A job that has begun since has published nothing, and will be refused once we have.
        has_begun_here = number == batch.first and batch.is_beginning
        if note.stage is OwnerStage.BEGUN and has_begun_here:
            return range(number, batch.next)
        owner, digest = note.published or (b"", b"")
    return _after(batch, number, digest) if owner == batch.owner else Refusal.FOREIGN


def _after(batch: NumberedRecords, number: int, digest: bytes) -> range | Refusal:
    """The owner of the batch has published up to ``number``."""
    if number < batch.first:
        return Refusal.GAP
    if number > batch.next:
        return _all_there(batch)
    if batch.digest_at(number) != digest:
        return Refusal.DIVERGED
    return range(number, batch.next)


def _all_there(batch: NumberedRecords) -> range | Refusal:
    """The brokers have more than this batch: right, if the rest of it is still to come."""
    return range(batch.next, batch.next) if batch.more else Refusal.OLDER


def may_begin(recorded: Recorded | None) -> Refusal | None:
    """Why a job must not begin in a group that it has no state of, if there is a reason."""
    if recorded is None or recorded.is_bare:
        return None
    note = recorded.note()
    if note is None:
        return Refusal.UNREADABLE
    return Refusal.OPEN if note.stage is OwnerStage.OPEN else None
