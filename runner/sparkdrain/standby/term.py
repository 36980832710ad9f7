"""What a leader leaves in the metadata store for those who wait. Pure."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

TermState = Literal["LEADING", "STOPPED", "FAILED", "DONE", "DRAINED", "CANCELLED"]

_ENDS: Final = frozenset({"DONE", "DRAINED", "CANCELLED"})
_LONGEST_CAUSE: Final = 2000


@dataclass(frozen=True, slots=True)
class Term:
    """The time for which one driver leads a job, and how that ended.

    Attributes:
        owner: the driver.
        state: LEADING; STOPPED if the driver was stopped and the job is to go on elsewhere; else
            how the job ended.
        began: microseconds since 1970, by the driver's clock.
        epoch: number of the newest claim of the job's checkpoints that any leader has told of.
        failures: how many leaders have failed in a row, without a new checkpoint in between.
        failed_at: the newest checkpoint when a leader failed last.
        is_last: whether no driver is to try again after a failure.
        cause: why it failed, for people; empty if it did not.
    """

    owner: str
    state: TermState
    began: int
    epoch: int = 0
    failures: int = 0
    failed_at: int = 0
    is_last: bool = False
    cause: str = ""

    @property
    def is_end(self) -> bool:
        """Whether the job is over for all who waited when it ended."""
        return self.state in _ENDS or (self.state == "FAILED" and self.is_last)

    def encode(self) -> bytes:
        """As JSON, whose schema is the message ``Term`` of ``proto/``."""
        return json.dumps(dataclasses.asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Term | None:
        """The inverse of ``encode``; None if it is empty or something else.

        Fields of later releases are ignored. What cannot be read says nothing of the job's end.
        """
        try:
            fields: Any = json.loads(data)
            known = {name: fields[name] for name in _FIELDS if name in fields}
            term = cls(**known)
        except (ValueError, TypeError):
            return None
        return term if term.state in get_args(TermState) else None


_FIELDS: Final = tuple(field.name for field in dataclasses.fields(Term))


def following(before: Term | None, owner: str, now: int) -> Term:
    """The term of a driver that begins to lead after another one."""
    if before is None:
        return Term(owner, "LEADING", now)
    return Term(owner, "LEADING", now, before.epoch, before.failures, before.failed_at)


def failed(term: Term, checkpoint: int, cause: str, allowed: int) -> Term:
    """The term of a leader whose job failed.

    Args:
        term: what the leader has told so far.
        checkpoint: the newest one that it knows of.
        cause: for people.
        allowed: how often others try again, without a new checkpoint in between.
    """
    is_same = term.failures > 0 and checkpoint <= term.failed_at
    failures = 1 + (term.failures if is_same else 0)
    return dataclasses.replace(
        term,
        state="FAILED",
        failures=failures,
        failed_at=checkpoint,
        is_last=failures > allowed,
        cause=cause[:_LONGEST_CAUSE],
    )
