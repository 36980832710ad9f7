"""The time of the brokers, as far as it is known: never later than it is.

The clock of a worker may be wrong, and an idle partition that follows it would make records late.
So the partition follows what the brokers have told, and the seconds that have passed since.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

# Clocks of two machines may differ in rate by a tenth: a time service that corrects a clock
# without a step changes its rate as much.
_RATE: Final = 0.9
# The clock of the worker bounds what is known from records. So only quartz counts.
_QUARTZ_RATE: Final = 0.999


@dataclass(frozen=True, slots=True)
class Told:
    """A time that was not in the future when it was heard of.

    Attributes:
        seconds: since 1970.
        heard: when, on the monotonic clock of this process, in seconds.
        rate: how many seconds are sure to pass there in a second of the monotonic clock.
    """

    seconds: float
    heard: float
    rate: float

    def at_least(self, monotonic: float) -> float:
        """What the time is at that moment at least."""
        passed = monotonic - self.heard
        return self.seconds + (passed * self.rate if passed > 0 else passed / self.rate)


@dataclass(frozen=True, slots=True)
class BrokerTime:
    """What brokers have told of their time, and what records have.

    Attributes:
        told: the newest answer of the brokers; None if there was none yet.
        newest: the record whose timestamp says most; None if there was no record yet.
    """

    told: Told | None = None
    newest: Told | None = None

    def with_answer(self, seconds: float, heard: float) -> BrokerTime:
        """The time as known after an answer, which replaces older ones: a clock may be set back."""
        return replace(self, told=Told(seconds, heard, _RATE))

    def with_record(self, seconds: float, heard: float) -> BrokerTime:
        """The time as known after a record's timestamp, if that says more than those before."""
        if self.newest is not None and self.newest.at_least(heard) >= seconds:
            return self
        return replace(self, newest=Told(seconds, heard, _QUARTZ_RATE))

    def at_least(self, monotonic: float, wall: float, ahead: float) -> float:
        """What the time is at a moment at least, in seconds since 1970.

        Args:
            monotonic: the moment, on the monotonic clock of this process.
            wall: the same moment on the clock of this machine, which may be wrong.
            ahead: by how many seconds that clock may be ahead, if brokers do not tell their time.
        """
        if self.told is not None:
            return self.told.at_least(monotonic)
        known = wall - ahead
        if self.newest is not None:
            # Producers may be ahead, too.
            known = max(known, min(wall, self.newest.at_least(monotonic)))
        return known

    def now(self, monotonic: float, wall: float) -> float:
        """What the time is, for records that have none: the brokers', or this machine's."""
        return wall if self.told is None else self.told.at_least(monotonic)
