"""Members of a group: each writes a record of its own again and again, for as long as it lives.

A member is dead when its record has not changed for some seconds, by the clock of whoever looks. It
stops before that by its own clock, as the holder of a lease does: see ``lease``.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.coordination.lease import LeaseSight, limit, seconds_that_pass, seen
from sparkdrain.coordination.metadata import ABSENT, CorruptRecord
from sparkdrain.coordination.names import key_of, prefix_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sparkdrain.coordination.metadata import MetadataStore

MEMBERS: Final = "sparkdrain-members-v1"
"""The namespace of members, by group and name."""

HEARTBEATS: Final = 6
"""How often a member writes its record in the time after which it is dead."""


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """What a member tells of itself.

    Attributes:
        name: of the member.
        life: a random text; a member that has been dead comes back with another one.
        location: where it is; empty if that is unknown.
        joined: the newest version of the group's model that it has stopped for; 0 for none.
        runs: the version that it works by; 0 if it does not work.
        seconds: after which it is dead.
        left: whether it has left the group; it works no more.
    """

    name: str
    life: str
    location: str = ""
    joined: int = 0
    runs: int = 0
    seconds: float = 30.0
    left: bool = False

    def encode(self) -> bytes:
        """As JSON."""
        return json.dumps(dataclasses.asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> MemberRecord:
        """The inverse of ``encode``; fields of later releases are ignored.

        Raises:
            ValueError: it is something else.
        """
        fields: Any = json.loads(data)
        known = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(fields, dict) or not {"name", "life"} <= fields.keys():
            message = "A record of a member has a name and a life."
            raise ValueError(message)
        return cls(**{name: value for name, value in fields.items() if name in known})


class Heartbeat:
    """One member's record, which only this member writes: one request for each heartbeat.

    One thread calls its methods; any thread may ask ``is_alive``.

    Args:
        store: where the record is.
        group: of the member.
        record: what it tells at first; its ``life`` is a new one.
        clock: seconds that pass on this machine.
    """

    def __init__(
        self,
        store: MetadataStore,
        group: str,
        record: MemberRecord,
        clock: Callable[[], float] = seconds_that_pass,
    ) -> None:
        self._store = store
        self._key = key_of(group, record.name)
        self._clock = clock
        self._version: str | None = None
        self._until = 0.0
        self._sight: LeaseSight | None = None
        self.record = record

    def is_alive(self) -> bool:
        """Whether all others must take this member for one that lives."""
        return self._clock() < self._until

    def remaining(self) -> float:
        """Seconds for which this member lives although it can write nothing."""
        return max(0.0, self._until - self._clock())

    def begin(self) -> bool:
        """Take the name, if no living member has it. Look again after a heartbeat's time if not.

        Raises:
            StoreDown: the store cannot be used now.
        """
        self._version, self._until = None, 0.0
        found = self._store.get(MEMBERS, self._key)
        version = ABSENT
        if found is not None:
            version = found.version
            there = _decoded(found.value)
            self._sight = seen(self._sight, version, self._clock())
            if not _may_follow(there, self.record, self._clock() - self._sight.since):
                return False
        return self._put(self.record, version)

    def write(self, record: MemberRecord) -> bool:
        """Tell something new, or the same again.

        Returns:
            Whether it was told. If not, others take this member for dead already, or another
            process has its name: it lives no more.

        Raises:
            StoreDown: the store cannot be used now; the member lives until ``remaining`` is over.
        """
        if self._version is None or not self.is_alive():
            return False
        if self._put(record, self._version):
            return True
        # A write whose answer was lost may have happened.
        found = self._store.get(MEMBERS, self._key)
        there = None if found is None else _decoded(found.value)
        if found is not None and there is not None and there.life == self.record.life:
            return self._put(record, found.version)
        self._version, self._until = None, 0.0
        return False

    def end(self) -> None:
        """Leave the group at once. Call it when this member works no more.

        Raises:
            StoreDown: the store cannot be used now; others see later that the member is dead.
        """
        if self._version is not None:
            self.write(dataclasses.replace(self.record, runs=0, left=True))
        self._version, self._until = None, 0.0

    def _put(self, record: MemberRecord, version: str) -> bool:
        sent = self._clock()
        written = self._store.put(MEMBERS, self._key, record.encode(), version)
        if written is None:
            return False
        self.record, self._version = record, written
        self._until = limit(sent, record.seconds)
        return True


@dataclass(frozen=True, slots=True)
class SeenMember:
    """A member as another process sees it.

    Attributes:
        record: what it has told last.
        sight: of this version of the record.
    """

    record: MemberRecord
    sight: LeaseSight

    def is_dead(self, now: float) -> bool:
        """Whether it has been silent for so long that it has stopped by itself. Pure."""
        return now >= self.sight.since + self.record.seconds

    def is_there(self, now: float) -> bool:
        """Whether it takes part in the group. Pure."""
        return not self.record.left and not self.is_dead(now)


class Members:
    """All members of a group, as one process sees them. One request for each look.

    Args:
        store: where their records are.
        group: whose members.
        clock: seconds that pass on this machine.
    """

    def __init__(
        self,
        store: MetadataStore,
        group: str,
        clock: Callable[[], float] = seconds_that_pass,
    ) -> None:
        self._store = store
        self._group = group
        self._clock = clock
        self._seen: dict[str, SeenMember] = {}

    def look(self) -> Mapping[str, SeenMember]:
        """All members that have a record that can be read, by name.

        Raises:
            StoreDown: the store cannot be used now.
        """
        found = self._store.all(MEMBERS, _ignore, prefix=prefix_of(self._group))
        now = self._clock()
        fresh: dict[str, SeenMember] = {}
        for record in found.values():
            told = _decoded(record.value)
            if told is not None:
                before = self._seen.get(told.name)
                sight = seen(None if before is None else before.sight, record.version, now)
                fresh[told.name] = SeenMember(told, sight)
        self._seen = fresh
        return fresh

    def remove(self, member: SeenMember) -> None:
        """Remove the record of a member that is gone, unless it was written again.

        Raises:
            StoreDown: the store cannot be used now.
        """
        key = key_of(self._group, member.record.name)
        self._store.remove(MEMBERS, key, member.sight.version)


def _may_follow(there: MemberRecord | None, record: MemberRecord, silent: float) -> bool:
    """Whether a member may write over what is there, which nobody has written for some seconds."""
    if there is None:
        return silent >= record.seconds
    return there.left or there.life == record.life or silent >= there.seconds


def _decoded(data: bytes) -> MemberRecord | None:
    try:
        return MemberRecord.decode(data)
    except ValueError:
        return None


def _ignore(error: CorruptRecord) -> None:
    del error
