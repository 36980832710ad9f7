"""Fires the timers of keys that have scopes, by Beam or in its place."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from apache_beam.transforms import userstate
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.keyed.errors import tell_key
from sparkdrain.watermarks.frontier import END

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from sparkdrain.harness.keyed_state import KeyedState
    from sparkdrain.harness.stateful import StatefulCalls
    from sparkdrain.keyed.up_to import UpTo
    from timers_state.ahead import DueKey, StoredTimer
    from timers_state.timers import Timer


class Callback(Protocol):
    """Calls what a DoFn has for a timer that fires."""

    event_only: bool
    """Whether none of its timers follows processing time."""

    def at_work(self) -> AbstractContextManager[Any]:
        """While calls are made, its step is at work."""

    def __call__(self, key: Any, window: Any, timer: Timer, pane: Any) -> None:
        """Call it."""


class BeamTimers:
    """Has Beam make the call."""

    event_only = False

    def __init__(self, process_timer: Callable[[str, Any], None]) -> None:
        self._process_timer = process_timer

    def at_work(self) -> AbstractContextManager[Any]:
        """See ``Callback``: Beam sees to it for each call."""
        return nullcontext()

    def __call__(self, key: Any, window: Any, timer: Timer, pane: Any) -> None:
        """See ``Callback``."""
        beams = userstate.Timer(
            user_key=key,
            dynamic_timer_tag=timer.tag.decode(),
            windows=(window,),
            clear_bit=False,
            fire_timestamp=Timestamp(micros=timer.time),
            hold_timestamp=None,
            paneinfo=pane,
        )
        self._process_timer(timer.family.decode(), beams)


class CallingTimers:
    """Makes the call in Beam's place."""

    def __init__(self, calls: StatefulCalls) -> None:
        self._calls = calls
        self._fire = calls.fire
        self.event_only = calls.event_only
        # Many timers share their time with the one before, often that of another key.
        self._time: int | None = None
        self._timestamp: Any = None

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """See ``Callback``."""
        with self._calls.firing():
            yield
            self._calls.flush()

    def __call__(self, key: Any, window: Any, timer: Timer, pane: Any) -> None:
        """See ``Callback``."""
        time, _, family, tag, _ = timer
        if time != self._time:
            self._time, self._timestamp = time, Timestamp(micros=time)
        try:
            self._fire[family](key, window, self._timestamp, pane, tag.decode())
        except BaseException as error:  # noqa: BLE001 - raised again, with the step's name
            self._calls.reraise(error)


class Firing:
    """Fires the timers of one DoFn, key after key."""

    def __init__(
        self,
        context: KeyedState,
        call: Callback,
        up_to: UpTo,
        decode_key: Callable[[bytes], Any],
        expiry_of: Callable[[Any], int] | None,
    ) -> None:
        context.bound.repeats = up_to.repeats
        self.at_work = call.at_work
        self._decode_window = context.decode_window
        self._place = context.large
        self._call = call
        self._up_to = up_to
        self._processing = None if call.event_only else up_to.processing
        self._decode_key = decode_key
        self._expiry_of = expiry_of
        self._over: set[Any] = set()

    def fire(self, encoded: bytes, *, of_clock: bool) -> None:
        """Fire timers of a key until none is due, or the budget is spent.

        Args:
            encoded: the key.
            of_clock: whether timers of processing time fire too, after those of event time.
        """
        with self.at_work():
            self._turn_of(encoded, (), self._up_to.event, self._processing if of_clock else None)

    def fire_read(self, due: DueKey) -> None:
        """Fire event timers of a key that were read from the store, and what they set before that.

        All of them, unless the budget is spent; what is due after them may be left. For many keys
        that are called within ``at_work``.
        """
        self._turn_of(due.key, due.timers or (), due.horizon, None)

    def _turn_of(
        self, encoded: bytes, read: Sequence[StoredTimer], event: int, processing: int | None
    ) -> None:
        place = self._place
        key = self._decode_key(encoded)
        self._over.clear()
        place.begin(encoded)
        if not read or self._fire_taken(key, read, event):
            last = max(event, read[-1][0]) if read else event
            while (due := place.pop_due(last, processing)) is not None:
                if not self._fire_one(key, *due):
                    break
        try:
            place.end()
        except BaseException as error:
            tell_key(error, key, place.window)
            raise
        for window in self._over:
            place.begin(encoded)
            place.expire_window(window)
            place.end()

    def _fire_taken(self, key: Any, read: Sequence[StoredTimer], horizon: int) -> bool:
        """Fire what was read until it is asked for otherwise; whether there may be more to do."""
        place = self._place
        for stored in read:
            due = place.take(stored)
            if due is None:
                return True
            if not self._fire_one(key, *due):
                return False
        return place.all_taken(horizon)

    def _fire_one(self, key: Any, timer: Timer, pane: Any) -> bool:
        """Fire a timer; whether the budget allows another one."""
        window = self._decode_window(timer.window)
        try:
            self._call(key, window, timer, pane)
        except BaseException as error:
            tell_key(error, key, window, timer.family, timer.tag)
            raise
        after, expiry_of = self._up_to.event, self._expiry_of
        # At the end of time all windows go at once.
        if after < END and expiry_of is not None and expiry_of(window) <= after:
            self._over.add(window)
        budget = self._up_to.budget
        budget.spend(1)
        return not budget.is_spent()

    def expire(self, encoded: bytes) -> None:
        """Forget the windows of a key that are over."""
        place = self._place
        place.begin(encoded)
        place.expire(self._up_to.event)
        place.end()
        self._up_to.budget.spend(1)
