"""Fires the timers of keys."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from apache_beam.utils.timestamp import Timestamp

from sparkdrain.harness.keyed.errors import tell_key
from sparkdrain.watermarks.frontier import END

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sparkdrain.harness.key_place import DueTimer
    from sparkdrain.harness.keyed_state import KeyedState
    from sparkdrain.harness.large_place import LargePlace
    from sparkdrain.harness.limits import UpTo
    from sparkdrain.harness.small_place import SmallPlace
    from sparkdrain.harness.stateful import TimerCalls
    from timers_state.due.ahead import DueKey


class Firing:
    """Fires the timers of one DoFn's keys in one place, key after key.

    Args:
        context: the DoFn's context.
        place: where the keys have their turns.
        calls: the DoFn's calls for timers.
        up_to: what is due.
        decode_key: makes a key of its bytes, by the coder of the input.
    """

    def __init__(
        self,
        context: KeyedState,
        place: SmallPlace | LargePlace,
        calls: TimerCalls,
        up_to: UpTo,
        decode_key: Callable[[bytes], Any],
    ) -> None:
        self.at_work = calls.at_work
        self._place: Any = place
        self._fire = calls.large if place.is_large else calls.small
        self._reraise = calls.reraise
        self._after = up_to.event
        self._pop_event = partial(place.pop_due, up_to.event, None)
        self._pop_all = partial(place.pop_due, up_to.event, up_to.processing)
        self._budget = up_to.budget
        self._decode_key = decode_key
        # At the end of time all windows of large keys go at once.
        goes_at_once = place.is_large and up_to.event == END
        self._expiry_of = None if goes_at_once else context.expiry_of
        # Many timers share their time with the one before, often that of another key.
        self._time: int | None = None
        self._timestamp: Any = None

    def fire(self, encoded: bytes, *, of_clock: bool) -> None:
        """Fire timers of a key until none is due, or the budget is spent.

        Args:
            encoded: the key.
            of_clock: whether timers of processing time fire too, after those of event time.
        """
        with self.at_work():
            self.fire_key(encoded, of_clock=of_clock)

    def fire_key(self, encoded: bytes, *, of_clock: bool) -> bool:
        """The same, for many keys that are called within ``at_work``; whether none may follow."""
        if not self._place.begin(encoded):  # making room has moved it
            return False
        return self._fire_all(encoded, self._pop_all if of_clock else self._pop_event)

    def fire_read(self, due: DueKey) -> None:
        """Fire event timers of a large key that were read from the store, and what they set.

        All of them, unless the budget is spent; what is due after them may be left. For many keys
        that are called within ``at_work``.
        """
        place, read = self._place, due.timers or ()
        place.begin(due.key)
        last = max(due.horizon, read[-1][0]) if read else due.horizon

        def dues() -> Iterator[DueTimer]:
            for stored in read:
                taken = place.take(stored)
                if taken is None:
                    break
                yield taken
            else:
                if read and not place.all_taken(due.horizon):
                    return
            while (popped := place.pop_due(last, None)) is not None:
                yield popped

        self._fire_all(due.key, partial(next, dues(), None))

    def _fire_all(self, encoded: bytes, pop_due: Callable[[], DueTimer | None]) -> bool:
        """Fire what is due of a key that has begun, and end it; whether the budget is spent."""
        place, budget, expiry_of = self._place, self._budget, self._expiry_of
        key = place.key = self._decode_key(encoded)
        over, is_spent = [], False
        while (due := pop_due()) is not None:
            which, time, window, family, tag, pane = due
            if time != self._time:
                self._time, self._timestamp = time, Timestamp(micros=time)
            try:
                try:
                    self._fire[family](key, window, self._timestamp, pane, tag)
                except BaseException as error:  # noqa: BLE001 - raised again, with the step's name
                    self._reraise(error)
            except BaseException as error:
                tell_key(error, key, window, family, tag)
                raise
            if expiry_of is not None and expiry_of(window) <= self._after:
                over.append(which)
            budget.spend(1)
            is_spent = budget.is_spent()
            if is_spent or place.is_outgrown:
                break
        try:
            place.end()
        except BaseException as error:
            tell_key(error, key, place.window)
            raise
        if over:
            for which in dict.fromkeys(over):
                place.expire_window(which)
        return is_spent

    def expire(self, encoded: bytes) -> None:
        """Forget the windows of a key that are over."""
        place = self._place
        if place.begin(encoded):
            place.expire(self._after)
            place.end()
        self._budget.spend(1)
