"""A GroupByKey of unbounded input: what every kind of it promises, and does alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sparkdrain.panes.arrivals import RoundBlocks
from sparkdrain.panes.times import BEGIN
from sparkdrain.shuffle.keys import key_codec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sparkdrain.shuffle.coding import ElementCoding
    from timers_state import Domain, Overlay, Timer

PaneBatch = tuple[Any, list[Any]]
"""A ``WindowedValue`` with time, windows and pane, and ``(key, values)`` pairs that share them."""


@dataclass(frozen=True, slots=True)
class GroupingTerms:
    """What the grouping of an edge is made with.

    Attributes:
        windowing: how the PCollection is windowed that is grouped.
        state_id: id of the state in the overlay; nothing else uses it.
        memory_bytes: how much of a round's input is in memory, and is sorted at a time.
        scratch: where the rest of it goes, and panes that are large; asked for when needed.
        closes_always: whether a window that expires without new elements has a last pane.
        on_time_always: whether a window that ends without new elements has an on-time pane.
        merge: stands for the windowing's ``WindowFn.merge``; None if that can be called itself.
    """

    windowing: Any
    key_coder: Any
    coding: ElementCoding
    overlay: Overlay
    state_id: int
    memory_bytes: int
    scratch: Callable[[], Path]
    closes_always: bool = False
    on_time_always: bool = True
    merge: Callable[[Any], None] | None = None


class PaneBudget(Protocol):
    """What a round may still fire; one budget may be for all stages of a slot."""

    def is_spent(self) -> bool:
        """Whether no more timer may fire."""

    def spend(self, elements: int) -> None:
        """Count a timer that fires, or the keys that came out for a timer which they share."""


class Grouping(ABC):
    """The state machine of one edge into a GroupByKey, in one slot.

    A round is: ``take`` every block; exhaust ``process``; exhaust ``advance``. All state is in the
    overlay, which ends or undoes the round; then ``commit`` or ``rollback`` is called here as
    well. Times are microseconds. Batches must be fed before the next one is asked for; the
    values in them stay readable.

    Attributes:
        dropped: elements, per window, that came after the window had expired or its trigger
            finished.
    """

    def __init__(self, terms: GroupingTerms) -> None:
        _, self._decode_key = key_codec(terms.key_coder)
        self._overlay = terms.overlay
        self._state_id = terms.state_id
        self._blocks = RoundBlocks(terms.memory_bytes, terms.scratch)
        self._memory_bytes = terms.memory_bytes
        self._dropped = 0
        self.dropped = 0

    @property
    def spilled_bytes(self) -> int:
        """Bytes of input that went to disk before they were processed."""
        return self._blocks.spilled_bytes

    def take(self, payload: memoryview) -> None:
        """Collect a block of the edge."""
        self._blocks.add(payload)

    @abstractmethod
    def process(self, frontier: int, now: int, ahead: int = BEGIN) -> Iterator[PaneBatch]:
        """Put all that was taken into state, and fire what fires because of it.

        ``advance`` comes next, in the same round.

        Args:
            frontier: the input frontier before this round: what it passed is late.
            now: processing time.
            ahead: the input frontier after it, as far as known: what ends by then need not go
                into state.
        """

    @abstractmethod
    def advance(self, frontier: int, now: int, budget: PaneBudget) -> Iterator[PaneBatch]:
        """Fire what is due, in time order, until ``budget`` is spent.

        Args:
            frontier: the input frontier now.
            now: processing time.
            budget: asked before each timer.
        """

    @abstractmethod
    def hold(self) -> int:
        """The earliest timestamp that a later pane of what is in state may have, or END.

        Not below the input frontier unless something older is in state, or due and not fired.
        """

    @abstractmethod
    def next_wake(self) -> int | None:
        """The processing time at which something is due, if nothing else happens."""

    @abstractmethod
    def has_due(self, frontier: int, now: int) -> bool:
        """Whether ``advance`` would fire something."""

    def commit(self) -> None:
        """The round is over for good."""
        self._dropped = self.dropped

    def rollback(self) -> None:
        """The round did not happen, and the overlay was rolled back; blocks taken are gone."""
        self.dropped = self._dropped
        self._blocks.clear()

    def _first(self, domain: Domain) -> int | None:
        """The time of the earliest timer."""
        return self._overlay.first_time(self._state_id, domain)

    def _due(self, domain: Domain, up_to: int, budget: PaneBudget) -> Iterator[tuple[bytes, Timer]]:
        """Timers taken out one by one while the budget lasts; each with its key.

        They are in time order within a key. Keys come in the order of their first timers, each one
        with all that is due: what the store has of a key is read once.
        """
        overlay, state_id = self._overlay, self._state_id
        while not budget.is_spent():
            key = overlay.next_due(state_id, domain, up_to)
            if key is None:
                return
            scope = overlay.scope(state_id, key)
            while (timer := scope.timers(domain).pop_due(up_to)) is not None:
                budget.spend(1)
                yield key, timer
                if budget.is_spent() or not scope.active:  # forgotten, or written to make room
                    break
