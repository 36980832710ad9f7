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

import dataclasses
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sparkdrain.coordination.metadata import CorruptRecord, MetadataError, version_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.coordination.metadata import MetadataStore, Versioned

LEASES: Final = "sparkdrain-leases-v1"
"""The namespace of leases, by name."""
TOKENS: Final = "sparkdrain-lease-tokens-v1"
"""The namespace of the last token of each lease."""

_EARLIER: Final = 0.1
"""Part of a lease's time by which its holder stops before others may take it."""
_RENEWALS: Final = 4
"""How often a leader renews its lease in the time of the lease."""
_LOOKS: Final = 6
"""How often another candidate looks at it in that time."""


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
        return json.dumps(dataclasses.asdict(self)).encode()

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


class HeldLease(NamedTuple):
    """A lease as its holder knows it.

    Attributes:
        token: the fencing token.
        version: the store's mark of the record, as the holder has written it.
        until: when the holder stops, in seconds of its own clock.
    """

    token: int
    version: str
    until: float


def seconds_that_pass() -> float:
    """A clock that also counts the time for which the machine sleeps, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class StoredLease:
    """One process's way to a lease. One thread calls its methods; any thread may ask ``token``.

    All methods but ``step`` and ``resign`` raise ``StoreDown`` if it cannot be used now, and
    ``CorruptRecord`` if a record of the lease is damaged. A write that was given up may still
    happen. It changes nothing after the lease has changed in another way.

    A process that wants to lead calls ``step`` again and again, and leads while it has the lease.
    All that it writes as the leader has to carry the token. A dead leader is followed within the
    time of the lease and two looks, one that resigns at the next look. A store that is down costs
    the leader nothing before its lease ends.

    Attributes:
        other: the other process that had the lease when this one looked; empty if none had.
        problem: why the last ``step`` could not use the store; empty if it could.

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
        # The version of the record as it was seen last, and when that version was seen first.
        self._seen: str | None = None
        self._since = 0.0
        self._token = 0
        self._is_over = False
        self.other = ""
        self.problem = ""

    @property
    def unheard(self) -> float:
        """Seconds since another process was seen to renew the lease last; 0 if none was seen."""
        return 0.0 if self._seen is None else self._clock() - self._since

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
        self.other = record.owner
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
                is_wanted = self._is_free(last, found)
            there = [each for each in (record, last) if each is not None]
            record = max(there, key=lambda each: each.token, default=None)
        self.other = "" if is_wanted or record is None else record.owner
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
        self._held = self._from(sent, held.token, version)
        return True

    def release(self) -> None:
        """Let another process have the lease at once. Without the lease, do nothing."""
        held, self._held = self._held, None
        if held is not None:
            self._write_mine(held, LeaseRecord("", held.token, self._seconds))

    def step(self) -> float:
        """Renew the lease, or try to get it.

        Returns:
            Seconds until the next step is due.
        """
        if not self._is_over:
            try:
                if self.token() is None:
                    self.acquire()
                else:
                    self.renew()
                self.problem = ""
            except MetadataError as error:
                self.problem = str(error)
        is_settled = self.token() is not None and not self.problem
        return self._seconds / (_RENEWALS if is_settled else _LOOKS)

    def resign(self) -> None:
        """Want the lease no more, and let another process have it at once.

        A store that is down does not hear of it; then another gets it when the lease is over.
        """
        self._is_over = True
        try:
            self.release()
        except MetadataError as error:
            self.problem = str(error)

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
        self._held = self._from(sent, token, version)
        return True

    def _from(self, sent: float, token: int, version: str) -> HeldLease:
        """What this process has if the request of the time ``sent`` was granted."""
        return HeldLease(token, version, sent + self._seconds * (1 - _EARLIER))

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
        return not self._is_free(record, found)

    def _is_mine(self, record: LeaseRecord) -> bool:
        return record.owner == self._owner and record.token == self._token

    def _is_free(self, record: LeaseRecord, found: Versioned | None) -> bool:
        """Whether the lease of a record may be taken, of which ``found`` was just read."""
        if self._seen != version_of(found):
            self._seen, self._since = version_of(found), self._clock()
        return not record.owner or self._clock() >= self._since + record.seconds

    def _read(self, namespace: str, found: Versioned | None) -> LeaseRecord | None:
        try:
            return None if found is None else LeaseRecord.decode(found.value)
        except ValueError as error:
            message = (
                f"The record {self._name!r} in {namespace!r} is no lease: {error}. Remove it when "
                "none of its processes runs."
            )
            raise CorruptRecord(message) from error
