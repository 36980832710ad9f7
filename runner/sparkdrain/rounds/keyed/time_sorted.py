"""DoFns that require time-sorted input: elements wait in state until nothing earlier can come."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.watermarks.frontier import BEGIN, END
from timers_state import Domain
from timers_state.keys import I64_MIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkdrain.shuffle.coding import ElementCoding
    from sparkdrain.stages.shards.input import Count
    from sparkdrain.stages.shards.turn import Turn
    from timers_state import KeyScope, Overlay

_WAITING: Final = b"waiting"
_FIRST: Final = b"first"
_FED_AT_ONCE: Final = 1000


class SortedWait:
    """Elements of all keys of an edge, each until the frontier has passed its time and lateness.

    A key's timer stands at its earliest element, which holds the output frontier back.

    Args:
        state_id: id of the state in the overlay; nothing else uses it.
        lateness: how much later than the frontier elements may be, in microseconds.
    """

    def __init__(
        self, overlay: Overlay, state_id: int, coding: ElementCoding, lateness: int
    ) -> None:
        self._overlay = overlay
        self._state_id = state_id
        self._encode = coding.windowed.encode
        self._decode = coding.windowed.decode
        self._lateness = lateness
        self._dropped = 0

    def take(self, key: bytes, batches: Iterator[list[Any]], turn: Turn) -> Iterator[list[Any]]:
        """The new elements of a key that need not wait, in time order; the others wait."""
        limit = self._limit(turn.complete_until)
        late = BEGIN if turn.before == BEGIN else self._limit(turn.before)
        scope = self._overlay.scope(self._state_id, key)
        first = scope.timers(Domain.EVENT).next_time()
        elements = [e for batch in batches for e in self._timely(batch, late)]
        if first is not None and first < limit:
            # Some that waited are to go before: they go together.
            self._append(scope, elements, first)
            return
        due = [element for element in elements if element.timestamp_micros < limit]
        if len(due) < len(elements):
            rest = [element for element in elements if element.timestamp_micros >= limit]
            self._append(scope, rest, first)
        due.sort(key=_time)
        yield due

    def due(self, turn: Turn) -> Iterator[tuple[bytes, Iterator[list[Any]]]]:
        """Keys, and their elements that have waited long enough, in time order."""
        limit = self._limit(turn.complete_until)
        overlay, state_id = self._overlay, self._state_id
        while (key := overlay.next_due(state_id, Domain.EVENT, limit - 1)) is not None:
            yield key, self._release(overlay.scope(state_id, key), limit)

    def _release(self, scope: KeyScope, limit: int) -> Iterator[list[Any]]:
        waiting = scope.ordered_list(_WAITING)
        items = waiting.read(I64_MIN, limit)
        while batch := [self._decode(data) for _, data in islice(items, _FED_AT_ONCE)]:
            yield batch
        waiting.clear_range(I64_MIN, limit)
        timers = scope.timers(Domain.EVENT)
        left = next(waiting.read(), None)
        if left is None:
            timers.clear(_FIRST)
        else:
            timers.set(left[0], _FIRST)

    def _append(self, scope: KeyScope, elements: list[Any], first: int | None) -> None:
        if not elements:
            return
        waiting = scope.ordered_list(_WAITING)
        for element in elements:
            waiting.append(element.timestamp_micros, self._encode(element))
        earliest = min(map(_time, elements))
        if first is None or earliest < first:
            scope.timers(Domain.EVENT).set(earliest, _FIRST)

    def _timely(self, elements: list[Any], late: int) -> list[Any]:
        timely = [element for element in elements if element.timestamp_micros >= late]
        self._dropped += len(elements) - len(timely)
        return timely

    def _limit(self, frontier: int) -> int:
        """Elements before this are complete."""
        return END + 1 if frontier == END else max(frontier - self._lateness, BEGIN)

    def hold(self) -> int:
        """The time of the earliest element that waits; END if there is none."""
        first = self._overlay.first_time(self._state_id, Domain.EVENT)
        return END if first is None else first

    def keys(self, count: Count) -> int:
        """How many keys have elements that wait."""
        return count(self._state_id, Domain.EVENT)

    def take_dropped(self) -> int:
        """How many elements came too late since the last call."""
        dropped, self._dropped = self._dropped, 0
        return dropped


def _time(element: Any) -> int:
    time: int = element.timestamp_micros
    return time
