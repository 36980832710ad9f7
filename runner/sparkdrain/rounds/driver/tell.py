"""What the user of a streaming job is told of its rounds, as lines of text."""

from __future__ import annotations

import datetime as dt
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sparkdrain.watermarks.frontier import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sparkdrain.rounds.driver.schedule import Schedule
    from sparkdrain.rounds.messages import RoundReport

LOCAL: Final = "stateBytesLocal"
"""Counts bytes of state that slots were opened with and that their hosts had."""

FETCHED: Final = "stateBytesFetched"
"""Counts bytes of state that slots were opened with and that came from ``--checkpoint_dir``."""
_EVERY_SECONDS: Final = 2.0


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class Teller:
    """Writes a line now and then while rounds are committed.

    Args:
        progress: the option; nothing is written if it is off.
        publish: called as often as a line is written, also if none is.
        more: what else is to be told, if anything.
    """

    def __init__(
        self,
        progress: str,
        publish: Callable[[], object],
        more: Callable[[], str] = str,
        clock: Callable[[], float] = time.monotonic,
        write: Callable[[str], object] = _to_stderr,
    ) -> None:
        self._on = progress != "off"
        self._clock = clock
        self._publish = publish
        self._more = more
        self._write = write
        self._last = clock()
        self._rounds = 0
        self._bytes = 0

    def tell(self, schedule: Schedule, reports: list[RoundReport]) -> None:
        """A round was committed."""
        self._rounds += 1
        self._bytes += sum(report.sent_bytes for report in reports)
        now = self._clock()
        seconds = now - self._last
        if seconds < _EVERY_SECONDS:
            return
        self._publish()
        if self._on:
            self._write_line(schedule, seconds)
        self._last, self._rounds, self._bytes = now, 0, 0

    def _write_line(self, schedule: Schedule, seconds: float) -> None:
        held = schedule.holds()
        by = f", held by {held[0].reason} of {held[0].stage!r}" if held else ""
        dropped = sum(report.dropped for report in schedule.reports())
        late = f", {dropped:,} elements dropped as late" if dropped else ""
        more = self._more()
        self._write(
            f"round {schedule.number}: {1000 * seconds / self._rounds:.0f} ms each, "
            f"{self._bytes / seconds / 1e6:.1f} MB/s shuffled, "
            f"watermark {shown(schedule.frontier())}{by}{late}"
            f"{', ' if more else ''}{more}"
        )


def refused_timers(schedule: Schedule) -> list[str]:
    """What to tell of each family of timers that a drain has cut off."""
    return [
        f"The drain refused {count:,} timers of family {family!r} in {transform!r}: timers set "
        "them, and so on without end. --drain_timer_repeats says how many generations fire."
        for (transform, family), count in sorted(schedule.refused.items())
    ]


def shown(time_: int) -> str:
    """A frontier for people to read."""
    if time_ == BEGIN:
        return "not known yet"
    if time_ == END:
        return "at the end of time"
    moment = dt.datetime.fromtimestamp(0, dt.timezone.utc)
    try:
        return f"{moment + dt.timedelta(microseconds=time_):%Y-%m-%d %H:%M:%S.%f}"[:-3]
    except OverflowError:
        return f"{time_} µs"


@dataclass(slots=True)
class Openings:
    """What is told of slots that were opened with the state of checkpoints, over all lives.

    Attributes:
        tell: takes a text for the user.
        counts: what hosts had already, and what was read from storage, of all slots together;
            empty as long as none was opened so.
    """

    tell: Callable[[str], object]
    warn: Callable[[str], object]
    counts: Counter[str] = field(default_factory=Counter)
    _warned: set[str] = field(default_factory=set)

    def heard(self, reports: Sequence[RoundReport]) -> None:
        """A round with these reports was committed."""
        told = [each.opened.told for each in reports if each.opened is not None]
        told += [each.uploaded.told for each in reports if each.uploaded is not None]
        for text in told:
            if text and text not in self._warned:
                self._warned.add(text)
                self.warn(text)
        opened = [each.opened for each in reports if each.opened is not None]
        if not opened:
            return
        local = sum(each.local_bytes for each in opened)
        fetched = sum(each.fetched_bytes for each in opened)
        self.counts.update({LOCAL: local, FETCHED: fetched})
        slots = len({each.slot for each in reports if each.opened is not None})
        self.tell(
            f"{slots} {'slots were' if slots > 1 else 'slot was'} opened with the state of the "
            f"checkpoint: {local:,} bytes were on their hosts, {fetched:,} came from "
            f"--checkpoint_dir. The slowest took {max(each.seconds for each in opened):.1f} s."
        )
