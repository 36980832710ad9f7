"""A version of a group's model, and the barrier that all members pass before they work by it.

A version starts. Its members stop their work and join. When all have joined, and none of an earlier
version works any more, the version ends its barrier, and its members work by it. If a member does
not come, the version times out, nobody ever works by it, and another one takes its place.

All of this is pure. ``group`` reads and writes.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sparkdrain.coordination.membership import SeenMember


class BarrierPhase(str, enum.Enum):
    """How far the barrier of a version is."""

    START = "START"
    END = "END"
    TIMEOUT = "TIMEOUT"


@dataclass(frozen=True, slots=True)
class GroupModel:
    """What the leader of a group has decided.

    Attributes:
        version: grows by one each time; 0 if no leader has decided anything.
        phase: of its barrier.
        members: who works by this version: their lives by name.
        homes: the member that has each slot, by the number of the slot.
        former: others that may work by an earlier version, as (name, life).
    """

    version: int = 0
    phase: BarrierPhase = BarrierPhase.END
    members: Mapping[str, str] = field(default_factory=dict)
    homes: Mapping[int, str] = field(default_factory=dict)
    former: frozenset[tuple[str, str]] = frozenset()

    def encode(self) -> bytes:
        """As JSON."""
        fields = {
            "version": self.version,
            "phase": self.phase.value,
            "members": dict(self.members),
            "homes": {str(slot): name for slot, name in self.homes.items()},
            "former": sorted(self.former),
        }
        return json.dumps(fields).encode()

    @classmethod
    def decode(cls, data: bytes) -> GroupModel:
        """The inverse of ``encode``; of nothing, the model of a new group.

        Raises:
            ValueError: it is something else.
        """
        if not data:
            return cls()
        fields: Any = json.loads(data)
        try:
            return cls(
                int(fields["version"]),
                BarrierPhase(fields["phase"]),
                dict(fields["members"]),
                {int(slot): name for slot, name in fields["homes"].items()},
                frozenset((name, life) for name, life in fields.get("former", [])),
            )
        except (KeyError, TypeError, AttributeError) as error:
            message = f"it lacks a part of a group's model: {error}"
            raise ValueError(message) from error

    def has(self, name: str, life: str) -> bool:
        """Whether a member works by this version."""
        return self.members.get(name) == life

    def slots_of(self, name: str) -> frozenset[int]:
        """The slots that a member has."""
        return frozenset(slot for slot, home in self.homes.items() if home == name)


class Absences:
    """Since when lives of members have no record any more, as one process has seen it."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}

    def look(self, model: GroupModel, seen: Mapping[str, SeenMember], now: float) -> None:
        """Take note of whose record is not there now."""
        lives = set(model.former) | set(model.members.items())
        gone = {(name, life) for name, life in lives if _member(seen, name, life) is None}
        self._since = {each: self._since.get(each, now) for each in gone}

    def seconds(self, name: str, life: str, now: float) -> float:
        """For how long a life has had no record."""
        return now - self._since.get((name, life), now)


def who_may_join(
    model: GroupModel, seen: Mapping[str, SeenMember], now: float
) -> Mapping[str, str]:
    """Who is to be in the next version: all that live, and have stopped for this one."""
    return {
        name: member.record.life
        for name, member in sorted(seen.items())
        if member.is_there(now) and member.record.joined == model.version
    }


def can_end(
    model: GroupModel,
    seen: Mapping[str, SeenMember],
    absences: Absences,
    now: float,
    seconds: float,
) -> bool:
    """Whether members may work by a version: all have joined, and nobody works by another.

    Args:
        model: the version, whose start was written before ``seen`` was read.
        seen: all members.
        absences: of members.
        now: seconds of the clock of ``seen``.
        seconds: after which a member without a record has stopped by itself.
    """
    for name, life in model.members.items():
        member = _member(seen, name, life)
        if member is None or not member.is_there(now) or member.record.joined != model.version:
            return False
    return all(
        absences.seconds(name, life, now) >= seconds
        if (member := _member(seen, name, life)) is None
        else member.record.runs == 0 or member.is_dead(now)
        for name, life in model.former
        if not model.has(name, life)
    )


def is_hopeless(model: GroupModel, seen: Mapping[str, SeenMember], now: float) -> bool:
    """Whether a member of a version that has started is gone, so that waiting is in vain."""
    members = (_member(seen, name, life) for name, life in model.members.items())
    return any(member is None or not member.is_there(now) for member in members)


def ended(model: GroupModel) -> GroupModel:
    """The version, by which members work from now on."""
    return GroupModel(model.version, BarrierPhase.END, model.members, model.homes)


def timed_out(model: GroupModel) -> GroupModel:
    """The version, by which nobody ever works."""
    return GroupModel(model.version, BarrierPhase.TIMEOUT, model.members, model.homes, model.former)


def following(
    model: GroupModel, members: Mapping[str, str], homes: Mapping[int, str]
) -> GroupModel:
    """The next version. Whoever may work by the one before has to stop."""
    former = model.former
    if model.phase is BarrierPhase.END:
        former |= frozenset(model.members.items())
    return GroupModel(model.version + 1, BarrierPhase.START, members, homes, former)


def _member(seen: Mapping[str, SeenMember], name: str, life: str) -> SeenMember | None:
    member = seen.get(name)
    return member if member is not None and member.record.life == life else None
