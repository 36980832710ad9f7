"""Asks brokers for their time beside those who read, and says what is known of it.

The clock of a worker may be wrong, and an idle partition that follows it would make records late.
So the partition follows what the brokers have told, and the seconds that have passed since. What is
known is never later than their time is.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sparkdrain.errors import BadOption, BadSetup
from sparkdrain.io.errors import ServiceRefused
from sparkdrain.io.kafka.asking import Asking
from sparkdrain.io.kafka.client import ServiceTime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apache_beam.utils.timestamp import Timestamp

    from sparkdrain.io.kafka.client import ServiceClock
    from sparkdrain.io.kafka.watermarks import Watermarks

_LOGGER = logging.getLogger(__name__)
# After how many seconds brokers are asked again: after their time, after something else or nothing,
# and after a refusal, such as that of a password.
_EVERY: Final = 5.0
_SELDOM: Final = 15.0
_RARELY: Final = 600.0
# How far behind the clock of the worker idle partitions have to be, in seconds, for a warning.
_WORTH_TELLING: Final = 60.0
_CLOSING: Final = 1.0
_BEHIND: Final = (
    "%s. So idle partitions of %s are complete up to %.0f s ago only, by this worker's clock: "
    "either nothing was written there for so long, or that clock is ahead. No record is late for "
    "it, but windows wait. If the clocks of all workers are right, pass "
    "Watermarks(clock_ahead=0)."
)
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


class BrokerClock:
    """The brokers' time in one process. Any thread may ask; none waits for a broker.

    Args:
        opened: opens what asks the brokers.
        topics: tells which topics are read here.
        wall: the clock of this machine, in seconds since 1970.
        monotonic: seconds that pass.
    """

    def __init__(
        self,
        opened: Callable[[], ServiceClock],
        topics: Callable[[], Sequence[str]],
        wall: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self._opened = opened
        self._topics = topics
        self._wall = wall
        self._monotonic = monotonic
        self._asking: Asking[tuple[ServiceTime, float, float]] = Asking("time of brokers")
        self._lock = threading.Lock()
        self._service: ServiceClock | None = None
        self._known = BrokerTime()
        self._next = float("-inf")
        self._reason = ""
        self._has_answer = False
        self._has_warned = False
        self._is_closed = False
        self._learning = threading.Lock()

    def at_least(
        self, moment: float, watermarks: Watermarks, reached: Timestamp | None
    ) -> float | None:
        """What the brokers' time was at a moment at least.

        Args:
            moment: on the monotonic clock.
            watermarks: what records tell of time.
            reached: the watermark of what asks. A process that goes on with the work of another
                knows from it what that one knew.

        Returns:
            Seconds since 1970; None before the first answer.
        """
        self._ask()
        if reached is not None:
            passed = watermarks.passed(reached.micros)
            self._learn(BrokerTime.with_record, passed, self._monotonic())
        if not self._has_answer:
            return None
        wall = self._wall() - (self._monotonic() - moment)
        known = self._known.at_least(moment, wall, watermarks.clock_ahead)
        if self._known.told is None and wall - known > _WORTH_TELLING and not self._has_warned:
            self._has_warned = True
            _LOGGER.warning(_BEHIND, self._reason, ", ".join(self._topics()), wall - known)
        return known

    def now(self) -> float:
        """The time for records that have none, in seconds since 1970."""
        return self._known.now(self._monotonic(), self._wall())

    def close(self) -> None:
        """Let go of connections; a question that is on its way is left behind."""
        self._is_closed = True
        if self._lock.acquire(timeout=_CLOSING):
            try:
                service, self._service = self._service, None
                if service is not None:
                    service.close()
            finally:
                self._lock.release()

    def _ask(self) -> None:
        if self._monotonic() < self._next:
            return
        answer = self._asking.ask(self._question, 0.0)
        if answer is None:
            return
        told, heard, pause = answer
        self._next = self._monotonic() + pause
        self._has_answer = True
        self._reason = told.reason
        if told.seconds is not None:
            kind = BrokerTime.with_record if told.reason else BrokerTime.with_answer
            self._learn(kind, told.seconds, heard)

    def _learn(
        self, kind: Callable[[BrokerTime, float, float], BrokerTime], seconds: float, heard: float
    ) -> None:
        with self._learning:
            self._known = kind(self._known, seconds, heard)

    def _question(self) -> tuple[ServiceTime, float, float]:
        with self._lock:
            try:
                if self._is_closed:
                    return ServiceTime(None, "it is closed"), self._monotonic(), _SELDOM
                if self._service is None:
                    self._service = self._opened()
                told = self._service.time(self._topics())
            except (ServiceRefused, BadOption, BadSetup) as error:
                return ServiceTime(None, str(error)), self._monotonic(), _RARELY
            except Exception as error:  # noqa: BLE001 - whatever it was, they are asked again
                return ServiceTime(None, str(error)), self._monotonic(), _SELDOM
            return told, self._monotonic(), _SELDOM if told.reason else _EVERY
