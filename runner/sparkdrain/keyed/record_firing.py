"""Fires the timers of keys that are kept as records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.utils.timestamp import Timestamp

from sparkdrain.harness.timers import pane_of
from sparkdrain.keyed.errors import tell_key
from sparkdrain.watermarks.frontier import END
from timers_state import Domain

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.harness.keyed_state import KeyedState
    from sparkdrain.harness.stateful import StatefulCalls
    from sparkdrain.keyed.up_to import UpTo
    from timers_state.record import Record, TimerName


class RecordFiring:
    """Fires timers of one DoFn's records; the order within a key is that of ``Firing``.

    Args:
        calls: of the DoFn.
        context: of the DoFn.
        up_to: what is due.
        decode_key: of the input.
        expiry_of: the time at which a window is over for good; None if windows last for ever.
    """

    def __init__(
        self,
        calls: StatefulCalls,
        context: KeyedState,
        up_to: UpTo,
        decode_key: Callable[[bytes], Any],
        expiry_of: Callable[[Any], int] | None,
    ) -> None:
        context.bound.repeats = up_to.repeats
        self._calls = calls
        self._fire = calls.records.fire
        self._place = calls.records.place
        self._records = self._place.records
        self._families = self._records.layout.families
        self._decode_window = context.decode_window
        self._bound = context.bound
        self._after, self._processing = up_to.event, up_to.processing
        self._budget = up_to.budget
        self._decode_key = decode_key
        self._expiry_of = expiry_of
        self._time: int | None = None
        self._timestamp: Any = None

    def has(self, encoded: bytes) -> bool:
        """Whether a key has records, perhaps only from now on."""
        heads = self._records.heads
        return encoded in heads or (self._records.takes(encoded) and encoded in heads)

    def fire_all(self) -> bool:
        """Fire all that are due, if no key is anywhere else; False if the budget is spent."""
        records, budget, after = self._records, self._budget, self._after
        if not records.is_complete:
            return True
        is_spent = False
        with self._calls.firing():
            while not is_spent and records.is_complete:
                record = records.first_due(after)
                if record is None:
                    break
                self._fire_key(record.key, of_clock=False)
                is_spent = budget.is_spent()
            self._calls.flush()
        return not is_spent or records.first_due(after) is None

    def fire_clock(self) -> bool:
        """The same for timers of processing time, and what they set."""
        if self._calls.event_only or (key := self._due_by_clock()) is None:
            return True
        is_spent = False
        with self._calls.firing():
            while not is_spent and key is not None:
                self._fire_key(key, of_clock=True)
                is_spent, key = self._budget.is_spent(), self._due_by_clock()
            self._calls.flush()
        return not is_spent or key is None

    def _due_by_clock(self) -> bytes | None:
        """The key of the first timer of processing time, if it is due and no key is elsewhere."""
        records = self._records
        first = records.first(Domain.PROCESSING, self._processing) if records.is_complete else None
        return None if first is None or first[0] > self._processing else first[1]

    def fire(self, encoded: bytes, *, of_clock: bool) -> None:
        """See ``Firing``."""
        with self._calls.firing():
            self._fire_key(encoded, of_clock=of_clock)
            self._calls.flush()

    def _fire_key(self, encoded: bytes, *, of_clock: bool) -> None:
        place, budget = self._place, self._budget
        if not place.begin(encoded):  # making room has moved it
            return
        key = self._decode_key(encoded)
        fired: list[Record] = []
        while True:
            due = place.next_due(self._after)
            if due is None and of_clock:
                due = place.next_of_clock(self._processing)
            if due is None:
                break
            record, which = due
            window = self._decode_window(record.window)
            self._call(record, which, key, window)
            if self._expiry_of is not None and self._expiry_of(window) <= self._after:
                fired.append(record)
            budget.spend(1)
            if budget.is_spent() or place.is_outgrown:
                break
        try:
            place.end()
        except BaseException as error:
            tell_key(error, key, place.window)
            raise
        for record in fired:
            # Once its time is over, a window lasts as long as it has timers.
            if encoded in self._records.heads and record.expiry is None and not record.has_timers():
                self._records.forget(record)

    def _call(self, record: Record, which: int | TimerName, key: Any, window: Any) -> None:
        place, records = self._place, self._records
        if record is not place.record or place.window is None:
            place.point(record, window)
        if isinstance(which, int):
            domain, family, tag = Domain.EVENT, self._families[which], b""
            time, payload = records.take_timer(record, which)
        else:
            domain, family, tag = which
            time, payload = records.take_other(record, which)
            if domain is Domain.PROCESSING:
                records.clear_other(record, (Domain.HOLD, family, tag))
        if time != self._time:
            self._time, self._timestamp = time, Timestamp(micros=time)
        pane = pane_of(self._bound, domain, time, payload)
        try:
            try:
                self._fire[family](key, window, self._timestamp, pane, tag.decode())
            except BaseException as error:  # noqa: BLE001 - raised again, with the step's name
                self._calls.reraise(error)
        except BaseException as error:
            tell_key(error, key, window, family, tag)
            raise

    def expire(self, encoded: bytes) -> None:
        """Forget the windows of a key that are over; all of it when everything is."""
        records, after = self._records, self._after
        record = records.begin(encoded)
        while record is not None:
            if after == END:
                records.forget(record)
            elif record.expiry is not None and record.expiry <= after:
                if record.has_timers():
                    records.expire_at(record, None)
                else:
                    records.forget(record)
            record = record.more
        self._budget.spend(1)
