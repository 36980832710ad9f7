"""Which record has the earliest timer: lists of records by time, corrected when they are looked at.

A record is never listed later than its first timer, and often earlier: one whose timer moves on
and on, as that of a session does, stays where it is until its list is the first.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from timers_state.small.record import Record

_SPARE: Final = 1024


class Parked(NamedTuple):
    """What was found while its key was hidden, and is to be listed again after that."""

    lists: TimeLists
    record: Record
    time: int


class TimeLists:
    """Records by a time of theirs, the earliest first.

    Args:
        time_of: the time that counts.
        hidden: by key, what is not to be found now; its owner changes which keys these are.
    """

    def __init__(
        self, time_of: Callable[[Record], int | None], hidden: Mapping[bytes, list[Parked]]
    ) -> None:
        self.time_of = time_of
        self._hidden = hidden
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self._at: dict[int, list[Record]] = {}
        self._times: list[int] = []

    def list(self, record: Record, time: int) -> None:
        """A record has this time, now or when earlier ones are gone."""
        _add(self._at, self._times, record, time)

    def first(self, up_to: int | None = None) -> Record | None:
        """The record whose time is the earliest; some record, if no time is at most ``up_to``."""
        times, time_of, hidden = self._times, self.time_of, self._hidden
        while times:
            time = times[0]
            there = self._at[time]
            while there:
                record = there[-1]
                if time_of(record) == time:
                    if record.key not in hidden:
                        return record
                    hidden[record.key].append(Parked(self, record, time))
                there.pop()
            heappop(times)
            del self._at[time]
        return None


class RecordTimes(TimeLists):
    """The event timers of records: ``listed`` is the time that counts, a lower bound."""

    def __init__(self, hidden: Mapping[bytes, list[Parked]]) -> None:
        super().__init__(attrgetter("listed"), hidden)

    @override
    def clear(self) -> None:
        super().clear()
        self._listed = 0
        self._front: int | None = None

    @override
    def list(self, record: Record, time: int) -> None:
        """A record has a timer at ``time``, and is not listed before that."""
        record.listed = time
        self._listed += 1
        _add(self._at, self._times, record, time)

    @override
    def first(self, up_to: int | None = None) -> Record | None:
        """The record that has the earliest timer, listed under the time of that timer.

        The lists are sorted by a lower bound of each record's earliest timer. If the first bound is
        after ``up_to``, no record has a timer that is due. The record that is returned then has
        some timer, at or after the bound; it need not be the earliest.
        """
        # One function: each timer that moved later is listed again here, once in a while.
        times, at, hidden = self._times, self._at, self._hidden
        while times:
            time = times[0]
            there = at[time]
            is_later = up_to is not None and time > up_to
            if time != self._front and not is_later:
                there.reverse()  # who came first is taken first
                self._front = time
            while there:
                record = there[-1]
                if record.listed != time:
                    pass
                elif hidden and record.key in hidden:
                    hidden[record.key].append(Parked(self, record, time))
                else:
                    own = record.times
                    actual = own[0] if len(own) == 1 and not record.others else record.first_time()
                    if actual == time or (is_later and actual is not None):
                        return record
                    record.listed = actual
                    if actual is not None:
                        self._listed += 1
                        _add(at, times, record, actual)
                there.pop()
                self._listed -= 1
            heappop(times)
            del at[time]
            self._front = None
        return None

    def tidy(self, count: int, records: Iterable[Record]) -> None:
        """List just these records, of ``count`` keys, if much is listed that does not count."""
        if self._listed <= 2 * count + _SPARE:
            return
        self.clear()
        for record in records:
            record.listed = record.first_time()
            if record.listed is not None:
                self._at.setdefault(record.listed, []).append(record)
                self._listed += 1
        self._times = list(self._at)
        heapify(self._times)


def _add(at: dict[int, list[Record]], times: list[int], record: Record, time: int) -> None:
    there = at.get(time)
    if there is None:
        at[time] = [record]
        heappush(times, time)
    else:
        there.append(record)
