"""What the brokers keep of a group of records: a number, and a note as the offset's metadata.

A note is JSON of at most 500 bytes; brokers take 4,096 by default (``offset.metadata.max.bytes``).
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import Final

_FORMAT: Final = 1
# Characters of the job's name, of which JSON makes up to twelve bytes each.
_JOB: Final = 24


class OwnerStage(enum.Enum):
    """How far the owner of a group is."""

    BEGUN = "begun"
    """The owner has published nothing yet."""
    OPEN = "open"
    """The owner has published records, and may publish more."""
    OVER = "over"
    """The owner has published all of its records: it was drained, or its input has ended."""


@dataclass(frozen=True, slots=True)
class Note:
    """A note of which job has published up to a number, and what.

    Attributes:
        owner: the job that has published.
        digest: a digest of all that it has published.
        stage: how far the owner is.
        job: name of the job, for people; may be cut, or empty.
        behind: owner and digest of what was published before an owner has begun.
    """

    owner: bytes
    digest: bytes
    stage: OwnerStage
    job: str = ""
    behind: tuple[bytes, bytes] | None = None

    @property
    def published(self) -> tuple[bytes, bytes] | None:
        """Owner and digest of what was published last, as far as that is known."""
        return self.behind if self.stage is OwnerStage.BEGUN else (self.owner, self.digest)

    def text(self) -> str:
        """The metadata of the offset."""
        fields = {
            "sparkdrain": _FORMAT,
            "owner": self.owner.hex(),
            "digest": self.digest.hex(),
            "stage": self.stage.value,
            "job": self.job[:_JOB],
            "behind": [part.hex() for part in self.behind or ()],
        }
        return json.dumps(fields, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the brokers have of a group.

    Attributes:
        number: follows that of the last record that was published.
        metadata: text that the brokers keep with the offset; empty if a release wrote it that noted
            numbers only.
    """

    number: int
    metadata: str = ""

    @property
    def is_bare(self) -> bool:
        """Whether there is a number only."""
        # confluent-kafka writes a zero at the end.
        return not self.metadata.rstrip("\0")

    def note(self) -> Note | None:
        """The note; None if there is none, or none that this release can read."""
        try:
            # Of metadata that confluent-kafka has read, bytes may follow that are none of it.
            fields, _ = json.JSONDecoder().raw_decode(self.metadata)
            if fields["sparkdrain"] != _FORMAT:
                return None
            owner, digest = bytes.fromhex(fields["owner"]), bytes.fromhex(fields["digest"])
            parts = [bytes.fromhex(part) for part in fields["behind"]]
            behind = (parts[0], parts[1]) if parts else None
            return Note(owner, digest, OwnerStage(fields["stage"]), str(fields["job"]), behind)
        except (ValueError, LookupError, TypeError):
            return None
