"""Feeds keys to DoFns of which many elements are in flight, and fires their timers.

A key does one thing after the other: an element, or a timer, is complete before the next one
starts. Other keys go on beside it. Each key in flight has a place of its own for its state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.utils.windowed_value import WindowedValue
from typing_extensions import override

from sparkdrain.harness.keyed.due import Due
from sparkdrain.harness.keyed.firing import BeamTimers
from sparkdrain.harness.keyed.keys_in_flight import KeysInFlight, KeyTurn
from sparkdrain.watermarks.frontier import END
from timers_state import Domain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sparkdrain.harness.concurrent.operation import ConcurrentOperation
    from sparkdrain.harness.harness import Elements
    from sparkdrain.harness.keyed.due import StatefulDoFn
    from sparkdrain.harness.keyed_state import KeyedState
    from sparkdrain.harness.limits import UpTo


class FlightFeeder:
    """Feeds a source behind which there are such DoFns, and perhaps others.

    Args:
        feed: takes windowed values for all consumers of the source.
        operations: of the DoFns with elements in flight.
        contexts: their state.
        others: the state of other DoFns behind the source.
        decode_key: of the input.
    """

    takes_pieces = False

    def __init__(
        self,
        feed: Callable[[list[Any]], None],
        operations: Sequence[ConcurrentOperation],
        contexts: Sequence[KeyedState],
        others: Sequence[KeyedState],
        decode_key: Callable[[bytes], Any],
    ) -> None:
        self._feed = feed
        self._operations = operations
        self._contexts = contexts
        self._others = others
        self._decode_key = decode_key

    def feed(
        self,
        keys: Iterable[tuple[bytes, Any]],
        elements: Elements,
        is_late: Callable[[Any], bool],
    ) -> None:
        """Feed what encoded keys have; what is late was dropped when it was decoded."""
        together = KeysInFlight(self._operations)
        for encoded, chunks in keys:
            turn = KeyTurn(encoded, self._decode_key(encoded))
            turn.steps = self._steps(turn, elements(chunks))
            together.begin(turn)
            if not isinstance(chunks, (bytes, list)):
                together.land()  # they are read from somewhere, where the next key is read then
        together.land()

    def _steps(self, turn: KeyTurn, lists: Iterable[list[Any]]) -> Iterator[None]:
        encoded = turn.encoded
        places = [(context, context.begin_beside(encoded)) for context in self._contexts]
        for elements in lists:
            for element in elements:
                for alone in _by_window(turn.key, element):
                    for context, place in places:
                        context.place = place
                    for context in self._others:
                        context.begin(encoded)
                    self._feed([alone])
                    for context in self._others:
                        context.place.end()
                    yield
        for context, place in places:
            context.end_beside(place)


def _by_window(key: Any, element: Any) -> Iterator[Any]:
    element.value = value = (key, element.value)
    if len(element.windows) == 1:
        yield element
        return
    for window in element.windows:
        yield WindowedValue(value, element.timestamp, (window,), element.pane_info)


class DueInFlight(Due):
    """As ``Due``, but each key that is due has its turn beside others."""

    def __init__(self, dofn: StatefulDoFn, up_to: UpTo, decode_key: Callable[[bytes], Any]) -> None:
        super().__init__(dofn, up_to, decode_key)
        assert dofn.flight is not None
        self._context = dofn.context
        self._call = BeamTimers(dofn.process_timer)
        self._keys = KeysInFlight([dofn.flight])
        self._decode_key = decode_key

    @override
    def _fire_small(self, first: Callable[[], bytes | None], *, of_clock: bool) -> bool:
        return True  # they are found with all others

    @override
    def _fire_stored(self) -> bool:
        return True

    @override
    def _fire_keys(self, domain: Domain, up_to: int) -> bool:
        """Keys come in the order of their first timers."""
        of_clock = self._up_to.processing if domain is Domain.PROCESSING else None
        together = self._keys
        while True:
            encoded = self._overlay.next_due(self._state_id, domain, up_to)
            if encoded is None:
                if not together.are_any:
                    return True
                together.land_some()  # callbacks may set what is due
            elif self._is_over():
                together.land()
                return False
            else:
                turn = KeyTurn(encoded, self._decode_key(encoded))
                turn.steps = self._steps(turn, of_clock)
                together.begin(turn)
                self._began = True

    def _steps(self, turn: KeyTurn, of_clock: int | None) -> Iterator[None]:
        context, up_to = self._context, self._up_to
        place = context.begin_beside(turn.encoded)
        place.key = turn.key
        # At the end of time all windows go at once.
        expiry_of = None if up_to.event == END else context.expiry_of
        over = []
        while (due := place.pop_due(up_to.event, of_clock)) is not None:
            _, time, window, family, tag, pane = due
            turn.timer = family, tag
            context.place = place
            self._call(turn.key, window, time, family, tag, pane)
            up_to.budget.spend(1)
            yield
            if expiry_of is not None and expiry_of(window) <= up_to.event:
                over.append(window)
            if up_to.budget.is_spent():
                break
        context.end_beside(place)
        for window in dict.fromkeys(over):
            place.expire_window(window)
