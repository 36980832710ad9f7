"""The turns of keys: their elements are fed, and their timers fired, by Beam or in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from apache_beam.transforms import userstate
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.rounds.keyed.errors import tell_key
from sparkdrain.watermarks.frontier import END

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from sparkdrain.harness.round_state import RoundKeyedState
    from sparkdrain.harness.stateful import StatefulCalls
    from sparkdrain.rounds.inputs import Turn
    from sparkdrain.shuffle.keyed_chunks import KeyedChunks
    from timers_state.ahead import DueKey, StoredTimer
    from timers_state.timers import Timer


Batches = Callable[[Any], "Iterator[list[Any]]"]
"""The elements of what one key has in a round."""


class Feeder(Protocol):
    """Feeds elements of one key after the other.

    Attributes:
        takes_pieces: whether a key may as well come several times, since a turn costs little.
    """

    @property
    def takes_pieces(self) -> bool:
        """See above."""

    def feed(self, keys: Iterable[tuple[bytes, Any]], batches: Batches) -> None:
        """Feed what encoded keys have; all of each before the next key is asked for."""


class BeamFeeder:
    """Feeds a source of Beam's operations, behind which there may be several stateful DoFns."""

    takes_pieces = False

    def __init__(
        self,
        feed: Callable[[list[Any]], None],
        contexts: list[RoundKeyedState],
        decode_key: Callable[[bytes], Any],
    ) -> None:
        self._feed = feed
        self._contexts = contexts
        self._decode_key = decode_key

    def feed(self, keys: Iterable[tuple[bytes, Any]], batches: Batches) -> None:
        """See ``Feeder``."""
        for encoded, chunks in keys:
            self._feed_key(encoded, batches(chunks))

    def _feed_key(self, encoded: bytes, batches: Iterable[list[Any]]) -> None:
        key = self._decode_key(encoded)
        contexts = self._contexts
        for context in contexts:
            context.begin_key(encoded)
        try:
            for elements in batches:
                for element in elements:
                    element.value = (key, element.value)
                self._feed(elements)
            for context in contexts:
                context.end_key()
        except BaseException as error:
            tell_key(error, key, contexts[0].window if contexts else None)
            raise


class CallingFeeder:
    """Calls the only DoFn behind a source."""

    def __init__(
        self,
        calls: StatefulCalls,
        context: RoundKeyedState,
        decode_key: Callable[[bytes], Any],
        chunks: KeyedChunks,
    ) -> None:
        self._calls = calls
        self._context = context
        self._decode_key = decode_key
        self._chunks = chunks
        self._count = 0
        self._last: tuple[Any, Any] = (None, None)

    @property
    def takes_pieces(self) -> bool:
        """See ``Feeder``: all keys are records in memory, or new."""
        records = self._calls.records
        return records is not None and records.place.records.is_complete

    def feed(self, keys: Iterable[tuple[bytes, Any]], batches: Batches) -> None:
        """See ``Feeder``."""
        calls, records = self._calls, self._calls.records
        self._count = 0

        def feed_key(encoded: bytes, chunks: Any) -> None:
            self._feed_key(encoded, batches(chunks))

        with calls.processing():
            if records is None:
                for encoded, chunks in keys:
                    feed_key(encoded, chunks)
            else:
                count, key, element = records.loop(
                    keys, self._decode_key, self._chunks, feed_key, tell_key
                )
                if count:
                    self._count += count
                    self._last = key, element
            calls.flush()
        if self._count:
            calls.fed(self._count, *self._last)

    def _feed_key(self, encoded: bytes, batches: Iterable[list[Any]]) -> None:
        """Feed all elements of a key."""
        calls, records = self._calls, self._calls.records
        key = self._decode_key(encoded)
        if records is not None and records.place.begin(encoded):
            place: Any = records.place
            call = records.feed
        else:
            place = self._begin(encoded)
            call = calls.feed
        element = None
        try:
            for elements in batches:
                self._count += len(elements)
                try:
                    call(key, elements)
                except BaseException as error:  # noqa: BLE001 - raised again, with the step's name
                    calls.reraise(error)
                if elements:
                    element = elements[-1]
                if place.is_outgrown:
                    place.end()
                    place, call = self._begin(encoded), calls.feed
            place.end()
        except BaseException as error:
            tell_key(error, key, place.window)
            raise
        if element is not None:
            self._last = key, element

    def _begin(self, encoded: bytes) -> RoundKeyedState:
        self._context.begin_key(encoded)
        return self._context


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
    """Fires the timers of one DoFn, key after key, in one turn."""

    def __init__(
        self,
        context: RoundKeyedState,
        call: Callback,
        turn: Turn,
        processing: int,
        decode_key: Callable[[bytes], Any],
        expiry_of: Callable[[Any], int] | None,
    ) -> None:
        context.bound.repeats = turn.repeats
        self.at_work = call.at_work
        self._context = context
        self._call = call
        self._turn = turn
        self._processing = None if call.event_only else processing
        self._decode_key = decode_key
        self._expiry_of = expiry_of
        self._over: set[Any] = set()

    def fire(self, encoded: bytes) -> None:
        """Fire timers of a key until none is due, or the budget is spent."""
        with self.at_work():
            self._turn_of(encoded, (), self._turn.after, self._processing)

    def fire_read(self, due: DueKey) -> None:
        """Fire event timers of a key that were read from the store, and what they set before that.

        All of them, unless the budget is spent; what is due after them may be left. For many keys
        that are called within ``at_work``.
        """
        self._turn_of(due.key, due.timers or (), due.horizon, None)

    def _turn_of(
        self, encoded: bytes, read: Sequence[StoredTimer], event: int, processing: int | None
    ) -> None:
        context = self._context
        key = self._decode_key(encoded)
        self._over.clear()
        context.begin_key(encoded)
        if not read or self._fire_taken(key, read, event):
            last = max(event, read[-1][0]) if read else event
            while (due := context.pop_due(last, processing)) is not None:
                if not self._fire_one(key, *due):
                    break
        try:
            context.end_key()
        except BaseException as error:
            tell_key(error, key, context.window)
            raise
        for window in self._over:
            context.begin_key(encoded)
            context.expire_window(window)
            context.end_key()

    def _fire_taken(self, key: Any, read: Sequence[StoredTimer], horizon: int) -> bool:
        """Fire what was read until it is asked for otherwise; whether there may be more to do."""
        context = self._context
        for stored in read:
            due = context.take(stored)
            if due is None:
                return True
            if not self._fire_one(key, *due):
                return False
        return context.all_taken(horizon)

    def _fire_one(self, key: Any, timer: Timer, pane: Any) -> bool:
        """Fire a timer; whether the budget allows another one."""
        window = self._context.decode_window(timer.window)
        try:
            self._call(key, window, timer, pane)
        except BaseException as error:
            tell_key(error, key, window, timer.family, timer.tag)
            raise
        after, expiry_of = self._turn.after, self._expiry_of
        # At the end of time all windows go at once.
        if after < END and expiry_of is not None and expiry_of(window) <= after:
            self._over.add(window)
        budget = self._turn.budget
        budget.spend(1)
        return not budget.is_spent()

    def expire(self, encoded: bytes) -> None:
        """Forget the windows of a key that are over."""
        context = self._context
        context.begin_key(encoded)
        context.expire(self._turn.after)
        context.end_key()
        self._turn.budget.spend(1)
