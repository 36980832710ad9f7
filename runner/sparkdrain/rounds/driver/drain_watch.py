"""What the loop of rounds knows of a drain: who asks for it, its limits, and how far it is."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sparkdrain.drain.limits import Limits
from sparkdrain.drain.progress import DrainProgress, advanced, began
from sparkdrain.drain.signal import DrainSignal
from sparkdrain.rounds.messages import DrainOrder

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.drain.phases import DrainPhase
    from sparkdrain.rounds.driver.schedule import Schedule
    from sparkdrain.types import CancelToken

# Microseconds between two surveys of a drain. In a survey every slot reads the row of each timer
# that it has, three million a second; so that they take less than a tenth of the time, they are
# the more seldom the more there is.
_EVERY: Final = 2_000_000
_EVERY_FOR_EACH: Final = 5


class DrainWatch:
    """Hears of a drain, and has slots count what is left inside, meanwhile or on request.

    Args:
        tell: takes the progress of a drain, of which the sums are a part.

    Attributes:
        signal: has the job drained: from the next round on, sources give nothing more.
        timer_repeats: see ``messages.DrainOrder.repeats``.
        limits: how long a slot may be at something meanwhile.
    """

    def __init__(
        self,
        signal: DrainSignal | None = None,
        tell: Callable[[DrainProgress], object] = lambda _: None,
        timer_repeats: int = 0,
        limits: Limits | None = None,
    ) -> None:
        self.signal = signal or DrainSignal()
        self.timer_repeats = timer_repeats
        self.limits = limits or Limits()
        self._tell = tell
        self._progress: DrainProgress | None = None
        self._question = 0
        self._survey = False
        self._last: int | None = None

    def order(self) -> DrainOrder | None:
        """What slots are told, if a drain is requested."""
        request = self.signal.requested()
        if request is None:
            return None
        return DrainOrder(request.run_id, self.timer_repeats, self.limits)

    def is_asked(self) -> bool:
        """Whether a caller waits for an answer."""
        return self.signal.inquiry.wanted() > 0

    def wants(self, now: int) -> bool:
        """Whether the next round is to be a survey.

        Args:
            now: processing time, microseconds since 1970.
        """
        self._question = self.signal.inquiry.wanted()
        self._begin(now)
        if self._progress is not None:
            pause = max(_EVERY, self._progress.things * _EVERY_FOR_EACH)
            self._survey = self._last is None or now - self._last >= pause
        return self._survey or self._question > 0

    def _begin(self, now: int) -> None:
        requested = self.signal.requested()
        if requested is not None and self._progress is None:
            self._progress = began(requested.run_id, now)

    def entered(self, phase: DrainPhase, now: int) -> None:
        """The job has come to a phase: tell it, if a drain is requested."""
        self._begin(now)
        if self._progress is not None:
            self._progress = replace(self._progress, phase=phase, now=now)
            self._tell(self._progress)

    def committed(self, schedule: Schedule, now: int) -> None:
        """The round was committed."""
        if not (self._survey or self._question):
            return
        reports = sorted(schedule.reports(), key=lambda report: (report.level, report.slot))
        left = [left for report in reports for left in report.left]
        if self._question:
            found = advanced(began("", now), now, left, schedule.holds())
            self.signal.inquiry.answer(self._question, found)
        if self._survey and self._progress is not None:
            self._last = now
            self._progress = advanced(self._progress, now, left, schedule.holds())
            self._tell(self._progress)

    def over(self, phase: DrainPhase, now: int) -> None:
        """The job is over, so nothing is left."""
        self.signal.inquiry.decline("The job is over: there is nothing inside.")
        if self._progress is not None:
            left = [left.emptied() for left in self._progress.stages]
            before = replace(self._progress, phase=phase)
            self._tell(advanced(before, now, left, []))


def attention(cancel: CancelToken, drain: DrainSignal) -> threading.Event:
    """Set while the driver waits: by a cancellation, a drain, a question, or who loses a host.

    To miss nothing, clear it, then look for what is wanted, then wait again.
    """
    wanted = threading.Event()
    cancel.on_cancel(wanted.set)
    drain.on_request(wanted.set)
    drain.inquiry.on_ask(wanted.set)
    return wanted
