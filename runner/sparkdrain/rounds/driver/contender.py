"""A driver that has a session and a plan, and waits until it leads."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol

from typing_extensions import override

from sparkdrain.errors import CheckpointFailed, SparkLost
from sparkdrain.standby.leadership import Contender

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.rounds.driver.durable import DurableJob

_EVERY: Final = 10.0
"""Seconds between two looks for the first checkpoint of the job."""


class Summoned(Protocol):
    """Executors that a driver has when it leads."""

    def summon(self) -> None:
        """Ask for them."""

    def dismiss(self) -> None:
        """Give them back."""


class DurableContender(Contender):
    """See ``Contender``.

    Args:
        is_usable: whether the session of Spark is.
        executors: the executors of that session.
    """

    def __init__(
        self,
        durable: DurableJob,
        is_usable: Callable[[], bool],
        executors: Summoned,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._durable = durable
        self._is_usable = is_usable
        self._executors = executors
        self._clock = clock
        self._looked: float | None = None
        self._fits = False

    @property
    @override
    def number(self) -> int:
        return self._durable.number

    @override
    def check(self) -> None:
        if not self._is_usable():
            message = (
                "Spark's session ended while this driver waited. Start the program again: it waits "
                "with a new session. The job goes on under the driver that leads."
            )
            raise SparkLost(message)
        now = self._clock()
        if self._fits or (self._looked is not None and now - self._looked < _EVERY):
            return
        self._looked = now
        try:
            self._fits = self._durable.check(resume=True)
        except CheckpointFailed:
            if not self._durable.epoch:
                raise  # this driver has never reached the checkpoints

    @override
    def shares(self, epoch: int) -> bool:
        return self._durable.claimed() >= epoch

    @override
    def expect(self, *, is_next: bool) -> None:
        """Executors start while the lease of a silent leader runs out."""
        if is_next:
            self._executors.summon()
        else:
            self._executors.dismiss()
