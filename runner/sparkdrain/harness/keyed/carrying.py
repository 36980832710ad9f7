"""Elements of keys that outlast their round: what a round commits has nothing of what they do.

Invariants, between the end of a round's bundle and the beginning of the next round:

- The records of a key have what its elements that are complete have made, and no more. What the
  element in flight has made is kept aside in memory.
- Each element that has arrived and is not complete is kept by the ``Carrier``, in arrival order.

From the time at which a round stops to wait for a key until its turn is over:

- The key is small, and its records stay in memory.
- No timer of the key fires, and none of its windows is forgotten. Their times hold the frontier.
- Elements that arrive after a timer is due start when it has fired, in a later round.

User code uses state only while the slot's loop runs, which is within rounds.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from apache_beam.utils.windowed_value import WindowedValue
from typing_extensions import override

from sparkdrain.harness.concurrent.tracker import ELEMENT
from sparkdrain.harness.harness import CarriedRounds
from sparkdrain.harness.keyed.errors import tell_key
from sparkdrain.harness.keyed.flight import KeyTurn
from sparkdrain.harness.keyed.worker import MOST_RECORDS
from sparkdrain.watermarks.frontier import BEGIN, END
from timers_state import Domain
from timers_state.small.record import times_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sparkdrain.harness.harness import Carrier
    from sparkdrain.harness.keyed.flight import KeysInFlight
    from sparkdrain.harness.keyed.worker import KeyWorker
    from sparkdrain.harness.limits import UpTo
    from timers_state.small.record import Content, Record
    from timers_state.small.records import Records

# So many elements of a key may wait for the one before.
_WAITING: Final = 256
_MILLISECOND: Final = 1000


class Arrived:
    """An element from its arrival until its results have left.

    Attributes:
        element: a windowed value without its key, in one window.
        updates: of metrics, which count when its results leave; None: they count at once.
        number: under which it is kept beyond its round; None: it is not.
    """

    __slots__ = ("element", "number", "updates")

    def __init__(self, element: Any) -> None:
        self.element = element
        self.updates: list[tuple[Any, Any]] | None = []
        self.number: int | None = None


class CarriedTurn(KeyTurn):
    """The elements of a key, of which the first one may be in flight when a round ends.

    Args:
        encoded, key: the key.
        records: of the DoFn's small keys.
        may_start: whether another element may start.

    Attributes:
        waiting: elements that have not started.
        is_due: whether a timer of the key, or the end of a window, waits for these elements.
    """

    __slots__ = (
        "_ahead",
        "_before",
        "_current",
        "_may_start",
        "_records",
        "encoded",
        "is_due",
        "key",
        "waiting",
    )

    def __init__(
        self, encoded: bytes, key: Any, records: Records, may_start: Callable[[], bool]
    ) -> None:
        self.encoded = encoded
        self.key = key
        self._records = records
        self._may_start = may_start
        self.waiting: deque[Arrived] = deque()
        self.is_due = False
        self._current: Arrived | None = None
        # What records had when the present element started; None: it has none, or is a large key's.
        self._before: dict[Record, Content] | None = None
        # What records had when the round ended, if that was something else.
        self._ahead: list[tuple[Record, Content]] | None = None

    @property
    @override
    def is_left(self) -> bool:
        return bool(self.waiting)

    @property
    def is_full(self) -> bool:
        """Whether there should be no more elements for now."""
        return len(self.waiting) >= _WAITING

    @override
    def steps(self, worker: KeyWorker) -> Iterator[tuple[Any, Any]]:
        key, encoded, records = self.key, self.encoded, self._records
        while self.waiting and self._may_start():
            arrived = self._current = self.waiting.popleft()
            place = worker.begin(encoded)
            if not place.is_large:
                self._before = {record: record.content() for record in records.of(encoded)}
            ELEMENT.set(arrived)
            yield arrived, worker.calls.start(key, arrived.element)
            self._current = self._before = None
            is_small = not (place.is_large or place.is_outgrown)
            worker.end(encoded)
            if not (is_small and self.waiting):
                self.wake()

    @override
    def tell(self, error: BaseException, window: Any) -> None:
        tell_key(error, self.key, window)

    def elements(self) -> Iterator[Arrived]:
        """Those that are not complete, in arrival order."""
        if self._current is not None:
            yield self._current
        yield from self.waiting

    def rest(self) -> bool:
        """Have the round go on without this key; False if it has to wait.

        It has to wait for large keys: what was committed of them cannot be told from the rest.
        """
        records, encoded = self._records, self.encoded
        if len(records.beside) >= MOST_RECORDS and encoded not in records.beside:
            return False
        if self._current is not None:
            is_small = self._before is not None
        else:
            is_small = encoded in records.heads or records.takes(encoded)
        if is_small:
            records.rest(encoded)
        return is_small

    def wake(self) -> None:
        """The round waits for this key, or its turn is over."""
        if self.encoded in self._records.resting:
            self._records.wake(self.encoded)
            if self._current is None:
                self._records.beside.discard(self.encoded)

    def committed(self) -> Iterable[Content]:
        """What all elements have made that are complete."""
        if self._before is not None:
            return self._before.values()
        return [record.content() for record in self._records.of(self.encoded)]

    def put_back(self) -> None:
        """The round ends: records have nothing of the element in flight."""
        before = self._before
        if before is None or self._ahead is not None:
            return
        empty, records = self._records.empty, self._records
        made = [(record, record.content()) for record in records.of(self.encoded)]
        self._ahead = [each for each in made if each[1] != before.get(each[0], empty)]
        for record, _ in self._ahead:
            records.replace(record, before.get(record, empty))

    def put_in(self) -> None:
        """A round begins: records have again what the element in flight has made."""
        for record, content in self._ahead or ():
            self._records.replace(record, content)
        self._ahead = None


class CarriedKeys(CarriedRounds):
    """The keys of one step whose elements may outlast their round.

    Args:
        flight: of the step.
        records: of its small keys.
        carrier: keeps elements.
    """

    def __init__(self, flight: KeysInFlight, records: Records, carrier: Carrier) -> None:
        self._flight = flight
        self._records = records
        self._carrier = carrier
        # Elements that came after a timer of their key was due.
        self._behind: dict[bytes, tuple[Any, list[Arrived]]] = {}
        self._hold = END
        carrier.follow(self)

    # --- the step -----------------------------------------------------------------------------

    def arrive(
        self, encoded: bytes, decode_key: Callable[[bytes], Any], elements: Iterable[Any]
    ) -> CarriedTurn | None:
        """Take elements of a key, as windowed values without it.

        Returns:
            Their turn; None if they start in a later round.
        """
        arrived = [Arrived(each) for element in elements for each in _by_window(element)]
        turn = self._turn(encoded)
        if not arrived:  # all of them came too late
            return turn
        if encoded in self._behind or (turn is not None and turn.is_due):
            known = self._behind.get(encoded) or (decode_key(encoded), [])
            self._behind.setdefault(encoded, known)[1].extend(arrived)
            return None
        if turn is None:
            turn = self._begin(encoded, decode_key(encoded))
        turn.waiting.extend(arrived)
        return turn

    def release(self) -> bool:
        """Have elements start whose keys have no turn; whether there are any."""
        free = [encoded for encoded in self._behind if encoded not in self._flight.turns]
        for encoded in free:
            key, arrived = self._behind.pop(encoded)
            self._begin(encoded, key).waiting.extend(arrived)
        return bool(free)

    def all_rest(self) -> bool:
        """Have the round go on without all keys in flight, as long as that is possible."""
        resting = self._records.resting
        return all(turn.encoded in resting or turn.rest() for turn in self._turns())

    def wake(self) -> None:
        """The round waits for all keys."""
        for turn in self._turns():
            turn.wake()

    def are_due(self, up_to: UpTo) -> None:
        """Timers fire. Those of keys in flight wait; elements that arrive later are behind them."""
        for turn in self._turns():
            turn.is_due = turn.is_due or any(_is_due(made, up_to) for made in turn.committed())

    def keep(self) -> None:
        """Keep each element that is not complete, and is not kept."""
        for turn in self._turns():
            self._keep(turn.encoded, turn.key, turn.elements())
        for encoded, (key, arrived) in self._behind.items():
            self._keep(encoded, key, arrived)

    def _keep(self, encoded: bytes, key: Any, arrived: Iterable[Arrived]) -> None:
        for each in arrived:
            if each.number is None:
                element = each.element
                paired = element.with_value((key, element.value))
                each.number = self._carrier.keep(paired, 0, is_ordered=False, key=encoded)

    def leaves(self, arrived: Arrived) -> list[tuple[Any, Any]]:
        """The results of an element have left; returns its updates of metrics."""
        updates, arrived.updates = arrived.updates or [], None
        if arrived.number is not None:
            self._carrier.drop(arrived.number)
        return updates

    def _begin(self, encoded: bytes, key: Any) -> CarriedTurn:
        turn = CarriedTurn(encoded, key, self._records, self._flight.may_start)
        self._flight.begin(turn)
        return turn

    def _turn(self, encoded: bytes) -> CarriedTurn | None:
        turn = self._flight.turns.get(encoded)
        assert turn is None or isinstance(turn, CarriedTurn)
        return turn

    def _turns(self) -> list[CarriedTurn]:
        return [turn for turn in self._flight.turns.values() if isinstance(turn, CarriedTurn)]

    # --- rounds -------------------------------------------------------------------------------

    @override
    def begin(self) -> None:
        for turn in self._turns():
            turn.put_in()
        self._flight.open_gate()
        self.release()

    @override
    def end(self) -> None:
        turns = self._turns()
        for turn in turns:
            turn.put_back()
        firsts = [
            time
            for turn in turns
            for content in turn.committed()
            for domain in (Domain.EVENT, Domain.HOLD)
            for time in times_in(content, domain)
        ]
        first = min(firsts, default=END)
        # What is sent has whole milliseconds.
        self._hold = END if first >= END else max(first - first % _MILLISECOND, BEGIN)

    @override
    def hold(self) -> int:
        return self._hold

    @property
    @override
    def are_any(self) -> bool:
        return bool(self._flight.turns)


def _by_window(element: Any) -> Iterator[Any]:
    """An element for each of its windows."""
    if len(element.windows) == 1:
        yield element
        return
    for window in element.windows:
        yield WindowedValue(element.value, element.timestamp, (window,), element.pane_info)


def _is_due(content: Content, up_to: UpTo) -> bool:
    limits = (
        (Domain.EVENT, up_to.event),
        (Domain.EXPIRY, up_to.event),
        (Domain.PROCESSING, up_to.processing),
    )
    return any(time <= limit for domain, limit in limits for time in times_in(content, domain))
