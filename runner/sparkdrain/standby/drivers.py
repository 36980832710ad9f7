"""The drivers of a job, the leader with its term and those who wait, as a store knows them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from sparkdrain.coordination.metadata import pass_over

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sparkdrain.coordination.metadata import MetadataStore, Versioned

TERMS: Final = "sparkdrain-terms-v1"
"""The namespace of fenced records, each the newest ``Term`` of a job, by ``set_name``."""
DRIVERS: Final = "sparkdrain-drivers-v1"
"""The namespace of ``StandingDriver``: keys are ``set_name``, a slash and the driver's name."""

TermState = Literal["LEADING", "STOPPED", "FAILED", "DONE", "DRAINED", "CANCELLED"]

_ENDS: Final = frozenset({"DONE", "DRAINED", "CANCELLED"})
_LONGEST_CAUSE: Final = 2000
_READABLE: Final = 60
_FORGOTTEN_SECONDS: Final = 86_400.0
_LOST_SECONDS: Final = 60.0


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


@dataclass(frozen=True, slots=True)
class StandingDriver:
    """A driver that leads or waits, as it has told last.

    Attributes:
        owner: names it.
        since: when it began to stand by, microseconds since 1970.
        heard: when it has told this, by its own clock.
    """

    owner: str
    since: int
    heard: int

    def encode(self) -> bytes:
        """As JSON, whose schema is the message ``StandingDriver`` of ``proto/``."""
        return json.dumps(dataclasses.asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> StandingDriver | None:
        """The inverse of ``encode``; None if it is something else.

        Fields of later releases are ignored.
        """
        try:
            fields: Any = json.loads(data)
            return cls(str(fields["owner"]), int(fields["since"]), int(fields["heard"]))
        except (ValueError, TypeError, KeyError):
            return None


def set_name(job_name: str, checkpoints: str) -> str:
    """Names all drivers of one job: of one name, with one folder of checkpoints."""
    readable = "".join(c if c.isascii() and c.isalnum() else "-" for c in job_name)[:_READABLE]
    digest = hashlib.sha256(f"{job_name}\0{checkpoints}".encode()).hexdigest()[:16]
    return f"{readable}-{digest}"


def known(store: MetadataStore, name: str) -> list[StandingDriver]:
    """All drivers of a set that have told of themselves, who leads or waits longest first."""
    read = map(StandingDriver.decode, (each.value for each in _all(store, name).values()))
    return sorted(
        (driver for driver in read if driver is not None),
        key=lambda driver: (driver.since, driver.owner),
    )


def tell(store: MetadataStore, name: str, driver: StandingDriver) -> None:
    """Tell that a driver is there."""
    store.put(DRIVERS, f"{name}/{driver.owner}", driver.encode())


def forget(store: MetadataStore, name: str, owner: str) -> None:
    """The driver is not there any more."""
    store.remove(DRIVERS, f"{name}/{owner}")


def forget_dead(store: MetadataStore, name: str, now: int) -> None:
    """Remove records of drivers that were not heard of for a day."""
    for key, found in _all(store, name).items():
        driver = StandingDriver.decode(found.value)
        if driver is None or (now - driver.heard) / 1e6 > _FORGOTTEN_SECONDS:
            store.remove(DRIVERS, key, found.version)


def told(store: MetadataStore, name: str, now: int) -> str:
    """Who leads a job and who waits, a line each; empty if it has no standby drivers.

    Args:
        store: that the drivers use.
        name: what the drivers of the job have in common, see ``set_name``.
        now: microseconds since 1970.
    """
    found = store.get(TERMS, name)
    term = None if found is None else Term.decode(found.value.partition(b"\n")[2])
    leader = term.owner if term is not None and term.state == "LEADING" else ""
    lines = []
    for driver in known(store, name):
        heard = max(0, now - driver.heard) / 1e6
        role = "waits" if heard < _LOST_SECONDS else "is lost"
        role = "leads" if driver.owner == leader else role
        lines.append(f"{driver.owner} {role}, heard {heard:.0f} s ago")
    if leader and not any(line.startswith(f"{leader} ") for line in lines):
        lines.append(f"{leader} leads")
    return "\n".join(lines)


def _all(store: MetadataStore, name: str) -> Mapping[str, Versioned]:
    return store.all(DRIVERS, pass_over, prefix=f"{name}/")
