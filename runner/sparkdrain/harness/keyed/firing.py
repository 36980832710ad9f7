"""Fires the timers of keys, by Beam or in its place."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from apache_beam.transforms import userstate
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.harness.keyed.errors import tell_key
from sparkdrain.watermarks.frontier import END

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from sparkdrain.harness.cells import DueTimer
    from sparkdrain.harness.keyed_state import KeyedState
    from sparkdrain.harness.large_place import LargePlace
    from sparkdrain.harness.limits import UpTo
    from sparkdrain.harness.small_place import SmallPlace
    from sparkdrain.harness.stateful import PlaceCalls, StatefulCalls
    from timers_state.due.ahead import DueKey


class BeamTimers:
    """Has Beam make the call."""

    event_only = False

    def __init__(self, process_timer: Callable[[str, Any], None]) -> None:
        self._process_timer = process_timer

    def at_work(self) -> AbstractContextManager[Any]:
        """Nothing: Beam sees to it for each call that the step is at work."""
        return nullcontext()

    def __call__(
        self, key: Any, window: Any, time: int, family: bytes, tag: bytes, pane: Any
    ) -> None:
        beams = userstate.Timer(
            user_key=key,
            dynamic_timer_tag=tag.decode(),
            windows=(window,),
            clear_bit=False,
            fire_timestamp=Timestamp(micros=time),
            hold_timestamp=None,
            paneinfo=pane,
        )
        self._process_timer(family.decode(), beams)


class CallingTimers:
    """Makes the call in Beam's place, for the keys of one place."""

    def __init__(self, calls: StatefulCalls, place: PlaceCalls) -> None:
        self._calls = calls
        self._fire = place.fire
        self.event_only = calls.event_only
        # Many timers share their time with the one before, often that of another key.
        self._time: int | None = None
        self._timestamp: Any = None

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """While calls are made, the step of the DoFn is at work."""
        with self._calls.firing():
            yield
            self._calls.flush()

    def __call__(
        self, key: Any, window: Any, time: int, family: bytes, tag: bytes, pane: Any
    ) -> None:
        if time != self._time:
            self._time, self._timestamp = time, Timestamp(micros=time)
        try:
            self._fire[family](key, window, self._timestamp, pane, tag.decode())
        except BaseException as error:  # noqa: BLE001 - raised again, with the step's name
            self._calls.reraise(error)


class Firing:
    """Fires the timers of one DoFn's keys in one place, key after key.

    Args:
        context: of the DoFn.
        place: where the keys have their turns.
        call: the DoFn's calls for this place.
        up_to: what is due.
        decode_key: of the input.
    """

    def __init__(
        self,
        context: KeyedState,
        place: SmallPlace | LargePlace,
        call: BeamTimers | CallingTimers,
        up_to: UpTo,
        decode_key: Callable[[bytes], Any],
    ) -> None:
        self.at_work = call.at_work
        self._place: Any = place
        self._call = call
        self._after = up_to.event
        self._processing = None if call.event_only else up_to.processing
        self._budget = up_to.budget
        self._decode_key = decode_key
        # At the end of time all windows of large keys go at once.
        goes_at_once = place.is_large and up_to.event == END
        self._expiry_of = None if goes_at_once else context.expiry_of

    def fire(self, encoded: bytes, *, of_clock: bool) -> None:
        """Fire timers of a key until none is due, or the budget is spent.

        Args:
            encoded: the key.
            of_clock: whether timers of processing time fire too, after those of event time.
        """
        with self.at_work():
            self.fire_key(encoded, of_clock=of_clock)

    def fire_key(self, encoded: bytes, *, of_clock: bool) -> None:
        """The same, for many keys that are called within ``at_work``."""
        place, processing = self._place, self._processing if of_clock else None
        if place.begin(encoded):  # else making room has moved it
            self._fire_all(encoded, partial(place.pop_due, self._after, processing))

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

    def _fire_all(self, encoded: bytes, pop_due: Callable[[], DueTimer | None]) -> None:
        """Fire what is due of a key that has begun, and end it."""
        place, budget, expiry_of = self._place, self._budget, self._expiry_of
        key = place.key = self._decode_key(encoded)
        over = []
        while (due := pop_due()) is not None:
            which, time, window, family, tag, pane = due
            try:
                self._call(key, window, time, family, tag, pane)
            except BaseException as error:
                tell_key(error, key, window, family, tag)
                raise
            if expiry_of is not None and expiry_of(window) <= self._after:
                over.append(which)
            budget.spend(1)
            if budget.is_spent() or place.is_outgrown:
                break
        try:
            place.end()
        except BaseException as error:
            tell_key(error, key, place.window)
            raise
        for which in dict.fromkeys(over):
            place.expire_window(which)

    def expire(self, encoded: bytes) -> None:
        """Forget the windows of a key that are over."""
        place = self._place
        if place.begin(encoded):
            place.expire(self._after)
            place.end()
        self._budget.spend(1)
