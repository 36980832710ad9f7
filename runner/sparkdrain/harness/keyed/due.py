"""Fires all timers of one stateful DoFn that are due, whichever way its keys are kept."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from apache_beam.utils.timestamp import Timestamp
from typing_extensions import override

from sparkdrain.harness.keyed.errors import tell_key
from sparkdrain.harness.keyed.worker import TimersTurn
from sparkdrain.watermarks.frontier import END
from timers_state.keys import EVENT, EXPIRY, PROCESSING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sparkdrain.harness.key_place import DueTimer
    from sparkdrain.harness.keyed.carrying import CarriedKeys
    from sparkdrain.harness.keyed.operation import KeyedOperation
    from sparkdrain.harness.keyed_state import KeyedState
    from sparkdrain.harness.large_place import LargePlace
    from sparkdrain.harness.limits import UpTo
    from sparkdrain.harness.small_place import SmallPlace
    from sparkdrain.harness.stateful import StatefulCalls, TimerCalls
    from timers_state import Domain
    from timers_state.overlay.due_index import DueKey

# Timers are read so many at a time. What the budget has no room for is read again.
_READ_AHEAD: Final = 250


@dataclass(frozen=True, slots=True)
class StatefulDoFn:
    """A DoFn with state or timers.

    Attributes:
        context: its state.
        calls: its calls for elements; None if Beam makes them.
        timers: its calls for timers.
        flight: its operation, if many elements of it may be in flight.
    """

    context: KeyedState
    calls: StatefulCalls | None
    timers: TimerCalls
    flight: KeyedOperation | None


class Due:
    """Fires timers, and forgets windows that are over.

    Event timers first: of keys that only the store has in its order, with the payloads, then those
    of all other keys.

    Args:
        decode_key: makes a key of its bytes, by the coder of the DoFn's input.
    """

    def __init__(self, dofn: StatefulDoFn, up_to: UpTo, decode_key: Callable[[bytes], Any]) -> None:
        context = dofn.context
        self._state_id = context.state_id
        self._overlay = context.overlay
        self._small = context.small.records
        self._large = context.large
        self._up_to = up_to
        context.bound.repeats = up_to.repeats
        self._of_small = Firing(context.small, dofn.timers, up_to, decode_key)
        self._of_large = Firing(context.large, dofn.timers, up_to, decode_key)
        self._began = False

    def fire(self) -> bool:
        """Fire everything; whether the budget was enough. Something fires in any case."""
        up_to = self._up_to
        return (
            self._fire_small(EVENT, up_to.event)
            and self._fire_stored()
            and self._fire_keys(EVENT, up_to.event)
            and self._fire_small(PROCESSING, up_to.processing)
            and self._fire_keys(PROCESSING, up_to.processing)
            and (self._forget_all() if up_to.event == END else self._expire(up_to.event))
        )

    def _fire_small(self, domain: Domain, up_to: int) -> bool:
        """Fire what is due as long as all keys are small; False if the budget is spent.

        Timers of event time fire, or those of processing time and what they set in event time.
        """
        records, firing, of_clock = self._small, self._of_small, domain is PROCESSING
        first, fire_key = records.first, firing.fire_key
        is_spent = self._is_over()
        with firing.at_work():
            while records.is_complete and (found := first(domain, up_to)) is not None:
                time, key = found
                if time > up_to:
                    break
                if is_spent:
                    return False
                is_spent = fire_key(key, of_clock=of_clock)
                self._began = True
        return True

    def _fire_stored(self) -> bool:
        """Event timers that the store has, of keys that have no records."""
        overlay, state_id, after = self._overlay, self._state_id, self._up_to.event
        if overlay.next_due(state_id, EVENT, after) is None:
            return True
        while due := overlay.read_due(state_id, EVENT, after, _READ_AHEAD):
            if not self._fire_read(due):
                return False
            overlay.read_on(state_id, EVENT)
        return True

    def _fire_read(self, due: Sequence[DueKey]) -> bool:
        """Timers that were read of many keys; False if the budget is spent, perhaps amid a key."""
        firing = self._of_large
        with firing.at_work():
            for key in due:
                if self._is_over():
                    return False
                firing.fire_read(key)
                self._began = True
        return not self._up_to.budget.is_spent()

    def _fire_keys(self, domain: Domain, up_to: int) -> bool:
        of_clock = domain is PROCESSING
        while (key := self._overlay.next_due(self._state_id, domain, up_to)) is not None:
            if self._is_over():
                return False
            firing = self._firing_of(key)
            with firing.at_work():
                firing.fire_key(key, of_clock=of_clock)
            self._began = True
        return True

    def _expire(self, up_to: int) -> bool:
        state_id = self._state_id
        while (key := self._overlay.next_due(state_id, EXPIRY, up_to)) is not None:
            if self._is_over():
                return False
            self._firing_of(key).expire(key)
            self._began = True
        return True

    def _forget_all(self) -> bool:
        """Time is at its end, and nothing is due anymore: all windows go at once."""
        if self._overlay.first_time(self._state_id, EXPIRY) is not None:
            self._large.forget_all()
        return True

    def _is_over(self) -> bool:
        return self._began and self._up_to.budget.is_spent()

    def _firing_of(self, key: bytes) -> Firing:
        is_small = self._overlay.bring_small(self._state_id, key)
        return self._of_small if is_small else self._of_large


class DueInFlight(Due):
    """As ``Due``, but each key that is due has its turn beside others."""

    def __init__(self, dofn: StatefulDoFn, up_to: UpTo, decode_key: Callable[[bytes], Any]) -> None:
        super().__init__(dofn, up_to, decode_key)
        assert dofn.flight is not None
        self._operation = dofn.flight
        self._decode_key = decode_key

    @override
    def fire(self) -> bool:
        carried = self._operation.carried
        if carried is None:
            return super().fire()
        is_all = self._fire_ahead(carried)
        carried.note_due(self._up_to)
        return super().fire() and is_all

    def _fire_ahead(self, carried: CarriedKeys) -> bool:
        """Fire timers that elements of their keys wait for; whether all have fired."""
        keys, turns = carried.to_fire(), deque[TimersTurn]()
        for held in keys:
            due = held.due
            assert due is not None
            up_to = replace(self._up_to, event=due.event, processing=due.processing)
            turns.append(TimersTurn(held.encoded, held.key, up_to, due.processing))
        self._operation.fire_turns(lambda: turns.popleft() if turns else None)
        have_fired = [carried.fired(held) for held in keys]
        return all(have_fired)

    @override
    def _forget_all(self) -> bool:
        # All keys would go at once, those too whose elements are in flight.
        return bool(self._operation.carried) or super()._forget_all()

    @override
    def _fire_small(self, domain: Domain, up_to: int) -> bool:
        return True  # they are found with all others

    @override
    def _fire_stored(self) -> bool:
        return True

    @override
    def _fire_keys(self, domain: Domain, up_to: int) -> bool:
        """Keys come in the order of their first timers."""
        of_clock = self._up_to.processing if domain is PROCESSING else None
        turns, is_left = self._operation.flight.turns, False

        def more() -> TimersTurn | None:
            nonlocal is_left
            encoded = self._overlay.next_due(self._state_id, domain, up_to)
            if encoded is None or encoded in turns:  # callbacks may set what is due
                return None
            if self._is_over():
                is_left = True
                return None
            self._began = True
            key = self._decode_key(encoded)
            return TimersTurn(encoded, key, self._up_to, of_clock)

        self._operation.fire_turns(more)
        return not is_left


class Firing:
    """Fires the timers of one DoFn's keys in one place, key after key.

    Args:
        decode_key: see ``Due``.
    """

    def __init__(
        self,
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
        self._expiry_of = None if goes_at_once else place.expiry_of
        # Many timers share their time with the one before, often that of another key.
        self._time: int | None = None
        self._timestamp: Any = None

    def fire_key(self, encoded: bytes, *, of_clock: bool) -> bool:
        """Fire timers of a key until none is due, or the budget is spent; whether it is spent.

        For keys that are called within ``at_work``.

        Args:
            of_clock: whether timers of processing time fire too, after those of event time.
        """
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
