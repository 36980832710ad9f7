"""The turns of keys, and what takes them one after the other: a task with places of its own."""

from __future__ import annotations

from collections import deque
from sys import getrefcount
from typing import TYPE_CHECKING, Any, Final, Protocol

from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from typing_extensions import override

from sparkdrain.harness.concurrent.room import WAITING
from sparkdrain.harness.keyed.errors import tell_key
from sparkdrain.harness.keyed_state import NOBODYS
from sparkdrain.harness.small_place import SmallPlace
from sparkdrain.harness.timers import timer_of
from sparkdrain.watermarks.frontier import END

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Iterator

    from sparkdrain.harness.keyed_state import KeyedState
    from sparkdrain.harness.large_place import LargePlace
    from sparkdrain.harness.limits import UpTo
    from sparkdrain.harness.stateful import FlightCalls
    from timers_state.small.record import Record

MOST_RECORDS: Final = 1024
"""Records of so many keys in flight are not written out if there is no room. Others are large."""


class KeyTurn(Protocol):
    """What one key has to do, one thing after the other.

    Attributes:
        encoded, key: the key.
        outlasts: whether the turn may go on when its round ends. Such a turn is told of elements
            that are complete, also of those without results.
    """

    encoded: bytes
    key: Any
    outlasts: bool = False

    @property
    def is_full(self) -> bool:
        """Whether there should be no more elements for now."""
        return False

    def steps(self, worker: KeyWorker) -> Iterator[tuple[Any, Any]]:
        """Call user code, from ``worker.begin`` to ``worker.end``.

        Each step has the context that results get, and what the call has returned. That is
        complete before the next step.
        """

    def tell(self, error: BaseException, window: Any) -> None:
        """Note down the key and the rest with an error of user code."""
        tell_key(error, self.key, window)


class ElementsTurn(KeyTurn):
    """The elements of a key."""

    __slots__ = ("_lists", "encoded", "key")

    def __init__(self, encoded: bytes, key: Any) -> None:
        self.encoded = encoded
        self.key = key
        self._lists: deque[Iterable[list[Any]]] = deque()

    def add(self, lists: Iterable[list[Any]]) -> None:
        """Further elements, as windowed values without their key; also while the turn goes on."""
        self._lists.append(lists)

    @property
    @override
    def is_full(self) -> bool:
        return len(self._lists) >= WAITING

    @override
    def steps(self, worker: KeyWorker) -> Iterator[tuple[Any, Any]]:
        key, encoded = self.key, self.encoded
        place = worker.begin(encoded)
        start = worker.calls.start
        while self._lists:
            for elements in self._lists.popleft():
                for element in elements:
                    if len(element.windows) == 1:
                        yield element, start(key, element)
                        continue
                    for alone in by_window(element):
                        yield alone, start(key, alone)
                if place.is_outgrown:
                    worker.end(encoded)
                    place = worker.begin(encoded)
                    start = worker.calls.start
        worker.end(encoded)


def by_window(element: Any) -> Iterator[Any]:
    """An element for each of its windows."""
    if len(element.windows) == 1:
        yield element
        return
    for window in element.windows:
        yield WindowedValue(element.value, element.timestamp, (window,), element.pane_info)


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


class _Own:
    """A place, and the calls that have its cells and timers.

    Cells and timers go from key to key with their place. That is safe as long as no code holds one
    beyond the turn of its key; whether some does is seen by their counts of references.
    """

    def __init__(
        self,
        place: SmallPlace | LargePlace,
        context: KeyedState,
        calls_in: Callable[[SmallPlace | LargePlace], FlightCalls],
    ) -> None:
        self.place = place
        timers = (timer_of(place, spec) for spec in context.timers)
        self._handles = (*place.cells.values(), *timers)
        self.calls = calls_in(place)
        self._at_rest = tuple(map(getrefcount, self._handles))

    def is_held(self) -> bool:
        """Whether code holds a cell or a timer."""
        return tuple(map(getrefcount, self._handles)) != self._at_rest


class KeyWorker:
    """Takes the turns of keys.

    Args:
        calls_in: makes the calls of the DoFn for a place.

    Attributes:
        turn: the present one.
        made: the coroutine, or the like, that user code has made for the present element.
        place: where state of the key is that has its turn.
        calls: for this place.
        task, began, is_armed, is_overdue: see ``Limited``.
    """

    began = 0.0
    is_armed = False
    is_overdue = False

    def __init__(
        self,
        context: KeyedState,
        calls_in: Callable[[SmallPlace | LargePlace], FlightCalls],
    ) -> None:
        self._context = context
        self._calls_in = calls_in
        self._records = context.small.records
        self._small: _Own | None = None
        self._large: _Own | None = None
        self._apart: _Own | None = None
        self._own: _Own | None = None
        self.task: asyncio.Task[None] | None = None
        self.turn: KeyTurn | None = None
        self.made: Any = None
        self.place: Any = None
        self.calls: Any = None

    def begin(self, encoded: bytes) -> Any:
        """Give a key its turn, as a small key if it can be one; returns its place.

        The key's records stay until ``end``, whatever is written out in the meantime.
        """
        own = self._small or self._renew()
        beside = self._records.beside
        if (len(beside) < MOST_RECORDS or encoded in beside) and own.place.begin(encoded):
            beside.add(encoded)
        else:
            assert self._large is not None
            own = self._large
            own.place.begin(encoded)
        self._own = own
        self.calls = own.calls
        self.place = place = own.place
        return place

    def end(self, encoded: bytes) -> None:
        """The turn of a key is over. Code that still holds a cell or timer gets an error."""
        own = self._own
        assert own is not None
        own.place.end()
        records = self._records
        if encoded not in records.hidden:
            records.beside.discard(encoded)
        if own.is_held():
            self.give_up()

    def begin_apart(self, copies: list[Record]) -> SmallPlace:
        """Give a key its turn with copies of its records; returns its place.

        What the turn changes stays there, see ``SmallPlace.take_changes``.
        """
        own = self._apart
        if own is None:
            another = self._context.apart(self._context.bound.another())
            own = self._apart = _Own(another, self._context, self._calls_in)
        self._own = own
        self.calls = own.calls
        self.place = place = own.place
        assert isinstance(place, SmallPlace)
        place.records.drop_all()
        place.records.take_in(copies)
        return place

    def end_apart(self) -> None:
        """That turn is over. Code that still holds a cell or timer gets an error."""
        own = self._own
        assert own is not None
        if own.is_held():
            self.give_up()

    def give_up(self) -> None:
        """Code that uses a cell or timer of this worker gets an error from now on."""
        for own in (self._small, self._large, self._apart):
            if own is not None:
                own.place.rest(NOBODYS)
        self._small = self._large = self._apart = None

    def _renew(self) -> _Own:
        context, calls_in = self._context, self._calls_in
        small, large = context.beside(context.bound.another())
        self._small = _Own(small, context, calls_in)
        self._large = _Own(large, context, calls_in)
        return self._small
