"""Elements of keys that outlast their round, which commits nothing of what they do.

An element *lands* when all that it has made counts, at once and in the slot's thread: its results,
its state, its timers and its metrics. It lands in the first part of a round, before timers fire.

Invariants. Between its arrival and its landing

- what an element makes is with the element. Its code has copies of its key's records, as they are
  after the element before it. The records themselves have what has landed, and no more;
- the ``Carrier`` has the element as it came in, from the end of the round in which it came;
- its key is held: it is small, and its records stay in memory. From the first part of a round to
  the next round nothing else changes them, but timers for which the key's elements wait. No timer
  of the key is found meanwhile. The key's timers hold the frontier where they are.

So a round may be committed or undone at any moment. An undone round has given its harness up, with
all that is in flight. The next harness starts again what the carrier has then.

A timer that is due waits for the elements of its key that came before. Elements that come later
wait for the timer, so it comes. They are *behind*. The windows of elements behind may be over
meanwhile, so the key's other timers wait for these elements in turn.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from sparkdrain.harness.concurrent.room import WAITING
from sparkdrain.harness.concurrent.tracker import ELEMENT
from sparkdrain.harness.harness import KeysCarried
from sparkdrain.harness.keyed.worker import MOST_RECORDS, KeyTurn, by_window
from sparkdrain.watermarks.frontier import BEGIN, END
from timers_state import Domain
from timers_state.small.record import times_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sparkdrain.harness.harness import Carrier
    from sparkdrain.harness.keyed.flight import KeysInFlight
    from sparkdrain.harness.keyed.worker import KeyWorker
    from sparkdrain.harness.keyed_state import KeyedState
    from sparkdrain.harness.limits import UpTo
    from sparkdrain.harness.small_place import KeyChanges
    from timers_state.small.records import Records

# A key lets others begin that wait, after so many of its elements.
_IN_A_TURN: Final = 16
_MILLISECOND: Final = 1000


class Arrived:
    """An element from its arrival until it lands.

    Attributes:
        held: its key.
        element: a windowed value without its key, in one window.
        results: what it has made, if it is complete.
        changes: what it has changed in its key's records, if it is complete.
        updates: changes of metrics; None: it has landed, so they count at once.
        number: under which the carrier has it; None: it came in the present round.
    """

    __slots__ = ("changes", "element", "held", "number", "results", "updates")

    def __init__(self, held: HeldKey, element: Any) -> None:
        self.held = held
        self.element = element
        self.results: Any = None
        self.changes: KeyChanges | None = None
        self.updates: list[tuple[Any, Any]] | None = []
        self.number: int | None = None


class HeldKey(KeyTurn):
    """A key with elements that have not landed; the turn of those that are not behind.

    Attributes:
        waiting: elements that have not started.
        inside: all that have not landed and are not behind, in arrival order.
        due: what was due when elements came that are behind; None: none is.
        behind: elements that start when the timers of ``due`` have fired.
    """

    __slots__ = ("_flight", "_records", "behind", "due", "encoded", "inside", "key", "waiting")

    outlasts = True

    def __init__(self, encoded: bytes, key: Any, records: Records, flight: KeysInFlight) -> None:
        self.encoded = encoded
        self.key = key
        self._records = records
        self._flight = flight
        self.waiting: deque[Arrived] = deque()
        self.inside: deque[Arrived] = deque()
        self.due: UpTo | None = None
        self.behind: list[Arrived] = []

    @property
    @override
    def is_full(self) -> bool:
        return len(self.waiting) >= WAITING

    @property
    def has_paused(self) -> bool:
        """Whether all have landed that had started, and others wait."""
        return bool(self.waiting) and len(self.waiting) == len(self.inside)

    @override
    def steps(self, worker: KeyWorker) -> Iterator[tuple[Any, Any]]:
        key, encoded = self.key, self.encoded
        place = worker.begin_apart(self._records.copies(encoded))
        count, is_small = 0, True
        while self.waiting and is_small and not (count >= _IN_A_TURN and self._flight.are_waiting):
            count += 1
            arrived = self.waiting.popleft()
            place.begin(encoded)
            ELEMENT.set(arrived)
            yield arrived, worker.calls.start(key, arrived.element)
            changes = arrived.changes = place.take_changes()
            is_small = not changes.is_outgrown
        worker.end_apart()
        ELEMENT.set(None)


class CarriedKeys(KeysCarried):
    """The keys of one step whose elements may outlast their round."""

    def __init__(self, flight: KeysInFlight, context: KeyedState, carrier: Carrier) -> None:
        self._flight = flight
        self._context = context
        self._records = context.small.records
        self.carrier = carrier
        self.held: dict[bytes, HeldKey] = {}
        self._complete: list[Arrived] = []
        carrier.follow(self)

    # --- elements -----------------------------------------------------------------------------

    def arrive(
        self, encoded: bytes, decode_key: Callable[[bytes], Any], elements: list[Any]
    ) -> KeyTurn | None:
        """Take elements of a key, as windowed values without it; what is complete has landed.

        Returns:
            Their turn, which may be one that the round waits for, if the key is large or there is
            no room to hold it; None if there are none, or if they start in a later round.
        """
        if not elements:  # all were late
            return None
        held = self.held.get(encoded)
        if held is None:
            if encoded in self._flight.turns or not self._hold(encoded):
                return self._flight.add(encoded, decode_key, (elements,))
            held = self.held[encoded] = HeldKey(
                encoded, decode_key(encoded), self._records, self._flight
            )
        arrived = [Arrived(held, each) for element in elements for each in by_window(element)]
        if held.due is not None:
            held.behind += arrived
            return None
        self._add(held, arrived)
        return held

    def _hold(self, encoded: bytes) -> bool:
        """Have the records of a key stay in memory; False if that cannot be."""
        records = self._records
        if len(records.beside) >= MOST_RECORDS:
            return False
        if records.begin(encoded) is None and not records.takes(encoded):
            return False
        records.beside.add(encoded)
        return True

    def _add(self, held: HeldKey, arrived: Sequence[Arrived]) -> None:
        """Further elements, also while the turn goes on."""
        held.waiting.extend(arrived)
        held.inside.extend(arrived)
        if held.waiting and held.encoded not in self._flight.turns:
            self._flight.begin(held)

    def is_complete(self, arrived: Arrived, results: Any) -> None:
        """An element is complete, and lands when the round lets it."""
        arrived.results = results
        self._complete.append(arrived)

    @property
    def are_new(self) -> bool:
        """Whether elements have come in this round, may start, and have not landed."""
        return any(held.inside and held.inside[-1].number is None for held in self.held.values())

    @property
    def are_too_many(self) -> bool:
        """Whether so many elements are inside that the round waits for some of them."""
        keys = (held for held in self.held.values() if held.inside)  # others wait for timers
        return sum(len(held.inside) + len(held.behind) for held in keys) >= self._flight.most_inside

    @property
    def are_complete(self) -> bool:
        """Whether elements are complete that have not landed."""
        return bool(self._complete)

    def landed(self) -> Iterator[tuple[Arrived, list[tuple[Any, Any]]]]:
        """Have elements land that are complete: each, and its updates of metrics.

        Their results have to leave in this round.
        """
        complete, self._complete = self._complete, []
        for arrived in complete:
            if arrived.changes is None:  # its code has ended, and its turn has not gone on
                self._complete.append(arrived)
                continue
            held = arrived.held
            first = held.inside.popleft()
            assert first is arrived
            changes = arrived.changes
            self._records.put(held.encoded, changes.contents, ends=not changes.is_outgrown)
            self._drop(arrived)
            updates, arrived.updates = arrived.updates or [], None
            if changes.is_outgrown:
                self._outgrow(held, changes)
            elif not (held.inside or held.behind):
                self._let_go(held)
            elif held.has_paused:
                self._add(held, ())
            yield arrived, updates

    def _drop(self, arrived: Arrived) -> None:
        if arrived.number is not None:
            self.carrier.drop(arrived.number)

    def _let_go(self, held: HeldKey) -> None:
        del self.held[held.encoded]
        self._records.show(held.encoded)
        self._records.beside.discard(held.encoded)

    def _outgrow(self, held: HeldKey, changes: KeyChanges) -> None:
        self._records.show(held.encoded)
        scope = self._context.overlay.scope(self._context.state_id, held.encoded)
        for act in changes.beyond:
            act(scope)
        self.wait_for(held)

    def wait_for(self, held: HeldKey) -> None:
        """Have the round wait for the elements of a key that is large now."""
        left = [*held.inside, *held.behind]
        self._let_go(held)
        for arrived in left:
            self._drop(arrived)
        if left:
            elements = [arrived.element for arrived in left]
            self._flight.add(held.encoded, lambda _: held.key, (elements,))

    def keep(self) -> None:
        """The round ends: keep each element that has come in it and has not landed."""
        for held in self.held.values():
            for arrived in (*held.inside, *held.behind):
                if arrived.number is None:
                    element = arrived.element
                    paired = element.with_value((held.key, element.value))
                    arrived.number = self.carrier.keep(
                        paired, 0, is_ordered=False, key=held.encoded
                    )

    # --- timers -------------------------------------------------------------------------------

    def hide(self) -> None:
        """Timers fire: have none found of keys that are held."""
        for encoded in self.held:
            self._records.hide(encoded)

    def wait_for_all(self) -> None:
        """The round waits for all keys. Timers come after all elements, as without carry over."""
        for held in self.held.values():
            behind, held.behind, held.due = held.behind, [], None
            self._add(held, behind)
        for held in [held for held in self.held.values() if not held.inside]:
            self._let_go(held)

    def to_fire(self) -> list[HeldKey]:
        """Keys of which timers are due that came before all elements that are left."""
        return [held for held in self.held.values() if not held.inside]

    def fired(self, held: HeldKey) -> bool:
        """Some of these timers of a key have fired; whether all have."""
        records, encoded, due = self._records, held.encoded, held.due
        if records.begin(encoded) is None and not records.takes(encoded):
            self.wait_for(held)  # what callbacks have stored has made it large
            return True
        assert due is not None
        if self._is_due(held, due, Domain.EVENT, Domain.PROCESSING):
            return False
        place = self._context.small
        if place.begin(encoded):
            place.expire(due.event)
            place.end()
        behind, held.behind, held.due = held.behind, [], None
        self._add(held, behind)
        if not held.inside:
            self._let_go(held)
        return True

    def note_due(self, up_to: UpTo) -> None:
        """Elements of keys whose timers are due wait for these from now on."""
        for held in self.held.values():
            if held.due is None and self._is_due(
                held, up_to, Domain.EVENT, Domain.PROCESSING, Domain.EXPIRY
            ):
                held.due = up_to

    def _is_due(self, held: HeldKey, up_to: UpTo, *domains: Domain) -> bool:
        return any(
            time <= (up_to.processing if domain is Domain.PROCESSING else up_to.event)
            for record in self._records.of(held.encoded)
            for domain in domains
            for time in times_in(record.content(), domain)
        )

    # --- the slot -----------------------------------------------------------------------------

    @override
    def hold(self) -> int:
        first = min(
            (
                time
                for encoded in self.held
                for record in self._records.of(encoded)
                for domain in (Domain.EVENT, Domain.HOLD)
                for time in times_in(record.content(), domain)
            ),
            default=END,
        )
        # What is sent has whole milliseconds.
        return END if first >= END else max(first - first % _MILLISECOND, BEGIN)

    @override
    def __len__(self) -> int:
        return len(self.held)
