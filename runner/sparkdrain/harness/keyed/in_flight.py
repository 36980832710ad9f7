"""Feeds keys to DoFns of which many keys are in flight, and fires their timers.

A key does one thing after the other: an element, or a timer, is complete before the next one
starts. Other keys go on beside it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from typing_extensions import override

from sparkdrain.harness.keyed.due import Due
from sparkdrain.harness.keyed.errors import tell_key
from sparkdrain.harness.keyed.worker import KeyTurn
from sparkdrain.watermarks.frontier import END
from timers_state import Domain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sparkdrain.harness.harness import Elements
    from sparkdrain.harness.keyed.carrying import CarriedKeys
    from sparkdrain.harness.keyed.due import StatefulDoFn
    from sparkdrain.harness.keyed.operation import KeyedOperation
    from sparkdrain.harness.keyed.worker import KeyWorker
    from sparkdrain.harness.keyed_state import KeyedState
    from sparkdrain.harness.limits import UpTo
    from sparkdrain.harness.operations import SourceOperation


class TimersTurn(KeyTurn):
    """The timers of a key that are due.

    Args:
        up_to: what is due.
        of_clock: the same in processing time; None: only timers of event time fire.
    """

    __slots__ = ("_of_clock", "_timer", "_up_to", "encoded", "key")

    def __init__(self, encoded: bytes, key: Any, up_to: UpTo, of_clock: int | None) -> None:
        self.encoded = encoded
        self.key = key
        self._up_to = up_to
        self._of_clock = of_clock
        self._timer: tuple[bytes, bytes] | tuple[()] = ()

    @override
    def steps(self, worker: KeyWorker) -> Iterator[tuple[Any, Any]]:
        key, encoded, up_to = self.key, self.encoded, self._up_to
        place = worker.begin(encoded)
        place.bound.repeats = up_to.repeats
        place.key = key
        # At the end of time all windows of large keys go at once.
        expiry_of = None if place.is_large and up_to.event == END else place.expiry_of
        over = []
        while (due := place.pop_due(up_to.event, self._of_clock)) is not None:
            which, time, window, family, tag, pane = due
            self._timer = family, tag
            timestamp = Timestamp(micros=time)
            made = worker.calls.fire[family](key, window, timestamp, pane, tag)
            up_to.budget.spend(1)
            yield WindowedValue(None, timestamp, (window,)), made
            if expiry_of is not None and expiry_of(window) <= up_to.event:
                over.append(which)
            if up_to.budget.is_spent() or place.is_outgrown:
                break
        worker.end(encoded)
        for which in dict.fromkeys(over):
            place.expire_window(which)

    @override
    def tell(self, error: BaseException, window: Any) -> None:
        tell_key(error, self.key, window, *self._timer)


class FlightFeeder:
    """Feeds the only DoFn behind a source, in whose place it counts."""

    def __init__(
        self,
        source: SourceOperation,
        operation: KeyedOperation,
        context: KeyedState,
        decode_key: Callable[[bytes], Any],
    ) -> None:
        self._source = source
        self._operation = operation
        self._context = context
        self._decode_key = decode_key
        self._count = 0
        self._last: tuple[bytes, Any] = b"", None

    @property
    def takes_pieces(self) -> bool:
        """Whether all keys are records in memory, or new."""
        return self._context.small.records.is_complete

    def feed(
        self,
        keys: Iterable[tuple[bytes, Any]],
        elements: Elements,
        is_late: Callable[[Any], bool],
    ) -> None:
        """Feed what encoded keys have; what is late was dropped when it was decoded."""
        operation, decode_key, counted = self._operation, self._decode_key, self._counted
        flight, is_whole = operation.flight, operation.carried is None
        self._count = 0
        for encoded, chunks in keys:
            if is_whole and isinstance(chunks, (bytes, list)):
                flight.add(encoded, decode_key, counted(encoded, elements(chunks)))
                if flight.is_full:
                    operation.make_room()
                continue
            # They may be read from somewhere, where the next key is read then.
            for some in counted(encoded, elements(chunks)):
                operation.make_room(operation.add_some(encoded, decode_key, some))
        operation.fed()
        if self._count:
            encoded, element = self._last
            self._source.fed(self._count, decode_key(encoded), element)

    def _counted(self, encoded: bytes, lists: Iterable[list[Any]]) -> Iterator[list[Any]]:
        for elements in lists:
            if elements:
                self._count += len(elements)
                self._last = encoded, elements[-1]
            yield elements


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
        of_clock = self._up_to.processing if domain is Domain.PROCESSING else None
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
