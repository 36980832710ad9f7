"""A lease: one owner at a time, for some seconds, with a fencing token that only grows.

A lease is a record of a metadata store. Clocks of different machines are never compared. A holder
counts from before it has sent its last renewal. All others count from when they have first seen the
version that this renewal has made, so they count from later. The holder also stops a tenth earlier,
because clocks run at different rates.

A process that was paused may not know that its lease is over. So what it writes carries the fencing
token, and ``FencedRecord`` refuses tokens that are older than the newest one.

Tokens are counted in a record of their own, which no release and no removal of the lease touches.
A token is given to one process, ever.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.coordination.metadata import CorruptRecord, version_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.coordination.metadata import MetadataStore, Versioned

LEASES: Final = "sparkdrain-leases-v1"
"""The namespace of leases, by name."""
TOKENS: Final = "sparkdrain-lease-tokens-v1"
"""The namespace of the last token of each lease."""

_EARLIER: Final = 0.1
"""Part of a lease's time by which its holder stops before others may take it."""


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """What a store has of a lease.

    Attributes:
        owner: the process that has taken it last; empty if it was released.
        token: the fencing token of that owner.
        seconds: how long others wait after the record has changed last.
    """

    owner: str
    token: int
    seconds: float

    def encode(self) -> bytes:
        """As JSON, whose schema is the message ``Lease`` of ``proto/``."""
        return json.dumps(
            {"owner": self.owner, "token": self.token, "seconds": self.seconds}
        ).encode()

    @classmethod
    def decode(cls, data: bytes) -> LeaseRecord:
        """The inverse of ``encode``; fields of later releases are ignored.

        Raises:
            ValueError: it is something else.
        """
        fields: Any = json.loads(data)
        try:
            return cls(str(fields["owner"]), int(fields["token"]), float(fields["seconds"]))
        except (KeyError, TypeError) as error:
            message = f"it lacks a field of a lease: {error}"
            raise ValueError(message) from error


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease as its holder knows it.

    Attributes:
        token: the fencing token.
        version: the store's mark of the record, as the holder has written it.
        until: when the holder stops, in seconds of its own clock.
    """

    token: int
    version: str
    until: float


@dataclass(frozen=True, slots=True)
class LeaseSight:
    """A lease as another process sees it.

    Attributes:
        version: the store's mark of the record when it was seen.
        since: when this version was seen first, in seconds of the observer's clock.
    """

    version: str
    since: float


def seen(before: LeaseSight | None, version: str, now: float) -> LeaseSight:
    """What an observer knows after it has read a version; ``now`` is after the answer. Pure."""
    return before if before and before.version == version else LeaseSight(version, now)


def is_free(record: LeaseRecord | None, sight: LeaseSight, now: float) -> bool:
    """Whether a lease may be taken. Pure.

    Args:
        record: what the lease's record says; None if there never was one.
        sight: how that record was seen.
        now: seconds of the observer's clock.
    """
    return record is None or not record.owner or now >= sight.since + record.seconds


def limit(sent: float, seconds: float) -> float:
    """When the holder of a lease stops that it has asked for at ``sent``. Pure."""
    return sent + seconds * (1 - _EARLIER)


def seconds_that_pass() -> float:
    """A clock that also counts the time for which the machine sleeps, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class StoredLease:
    """One process's way to a lease. One thread calls its methods; any thread may ask ``token``.

    All methods that reach the store raise ``StoreDown`` if it cannot be used now, and
    ``CorruptRecord`` if a record of the lease is damaged. A write that was given up may still
    happen. It changes nothing after the lease has changed in another way.

    Args:
        store: where the lease is.
        name: what the lease is called in the store.
        owner: names this process, also for people; no other process may have the same name.
        seconds: how long others wait after the last renewal.
        clock: seconds that pass on this machine.
    """

    def __init__(
        self,
        store: MetadataStore,
        name: str,
        owner: str,
        seconds: float,
        clock: Callable[[], float] = seconds_that_pass,
    ) -> None:
        self._store = store
        self._name = name
        self._owner = owner
        self._seconds = seconds
        self._clock = clock
        self._held: HeldLease | None = None
        self._sight: LeaseSight | None = None
        self._token = 0
        self._other = ""

    @property
    def seconds(self) -> float:
        """How long others wait after the last renewal."""
        return self._seconds

    @property
    def other(self) -> str:
        """The other process that had the lease when ``acquire`` looked; empty if none had."""
        return self._other

    @property
    def unheard(self) -> float:
        """Seconds since another process was seen to renew the lease last; 0 if none was seen."""
        return 0.0 if self._sight is None else self._clock() - self._sight.since

    def token(self) -> int | None:
        """The fencing token; None if this process does not have the lease, or not any more."""
        held = self._held
        return None if held is None or self._clock() >= held.until else held.token

    def is_others(self) -> bool:
        """Look once, and take nothing: whether another process has the lease. One request."""
        found = self._store.get(LEASES, self._name)
        record = self._read(LEASES, found)
        if record is None or not self._is_held(record, found):
            return False
        self._other = record.owner
        return True

    def acquire(self) -> bool:
        """Look once, and take the lease if it is free.

        Returns:
            Whether this process has it now, with a token that no process had before.
        """
        self._held = None
        found = self._store.get(LEASES, self._name)
        record = self._read(LEASES, found)
        counted = None
        is_wanted = record is None or not self._is_held(record, found)
        if record is None or is_wanted:
            counted = self._store.get(TOKENS, self._name)
            last = self._read(TOKENS, counted)
            if record is None and last is not None:
                # The lease was removed. Its holder may not have noticed yet.
                is_wanted = is_free(last, self._look(found), self._clock())
            record = _newer(record, last)
        self._other = "" if is_wanted or record is None else record.owner
        return is_wanted and self._take(found, counted, 0 if record is None else record.token)

    def renew(self) -> bool:
        """Write the lease again.

        Returns:
            Whether this process still has it. If not, it cannot get it back, but acquire it anew.
        """
        held = self._held
        if held is None or self.token() is None:
            self._held = None
            return False
        sent = self._clock()
        version = self._write_mine(held, LeaseRecord(self._owner, held.token, self._seconds))
        if version is None:
            self._held = None
            return False
        self._held = HeldLease(held.token, version, limit(sent, self._seconds))
        return True

    def release(self) -> None:
        """Let another process have the lease at once. Without the lease, do nothing."""
        held, self._held = self._held, None
        if held is not None:
            self._write_mine(held, LeaseRecord("", held.token, self._seconds))

    def _take(self, found: Versioned | None, counted: Versioned | None, last: int) -> bool:
        token = last + 1
        record = LeaseRecord(self._owner, token, self._seconds)
        if self._store.put(TOKENS, self._name, record.encode(), version_of(counted)) is None:
            return False
        self._token = token
        sent = self._clock()
        version = self._store.put(LEASES, self._name, record.encode(), version_of(found))
        if version is None:
            return False
        self._held = HeldLease(token, version, limit(sent, self._seconds))
        return True

    def _write_mine(self, held: HeldLease, record: LeaseRecord) -> str | None:
        version = self._store.put(LEASES, self._name, record.encode(), held.version)
        if version is None:
            # A write of ours may have happened although its answer was lost.
            found = self._store.get(LEASES, self._name)
            there = self._read(LEASES, found)
            if there is not None and self._is_mine(there):
                return self._store.put(LEASES, self._name, record.encode(), version_of(found))
        return version

    def _is_held(self, record: LeaseRecord, found: Versioned | None) -> bool:
        """Whether another process has it."""
        if not record.owner or self._is_mine(record):
            return False
        return not is_free(record, self._look(found), self._clock())

    def _is_mine(self, record: LeaseRecord) -> bool:
        return record.owner == self._owner and record.token == self._token

    def _look(self, found: Versioned | None) -> LeaseSight:
        self._sight = seen(self._sight, version_of(found), self._clock())
        return self._sight

    def _read(self, namespace: str, found: Versioned | None) -> LeaseRecord | None:
        try:
            return None if found is None else LeaseRecord.decode(found.value)
        except ValueError as error:
            message = (
                f"The record {self._name!r} in {namespace!r} is no lease: {error}. Remove it when "
                "none of its processes runs."
            )
            raise CorruptRecord(message) from error


def _newer(one: LeaseRecord | None, other: LeaseRecord | None) -> LeaseRecord | None:
    there = [each for each in (one, other) if each is not None]
    return max(there, key=lambda each: each.token, default=None)
