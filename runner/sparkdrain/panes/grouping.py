"""A GroupByKey of unbounded input: what every kind of it promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from sparkdrain.panes.times import BEGIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkdrain.panes.budget import PaneBudget

PaneBatch = tuple[Any, list[Any]]
"""A ``WindowedValue`` with time, windows and pane, and ``(key, values)`` pairs that share them."""


class Grouping(Protocol):
    """The state machine of one edge into a GroupByKey, in one slot.

    A round is: ``take`` every block; exhaust ``process``; exhaust ``advance``. All state is in the
    overlay, which ends or undoes the round; then ``commit`` or ``rollback`` is called here as
    well. Times are microseconds. Batches must be fed before the next one is asked for; the
    values in them stay readable.
    """

    dropped: int
    """Elements, per window, that came after the window had expired or its trigger finished."""

    @property
    def spilled_bytes(self) -> int:
        """Bytes of input that went to disk before they were processed."""

    def take(self, payload: memoryview) -> None:
        """Collect a block of the edge."""

    def process(self, frontier: int, now: int, ahead: int = BEGIN) -> Iterator[PaneBatch]:
        """Put all that was taken into state, and fire what fires because of it.

        ``advance`` comes next, in the same round.

        Args:
            frontier: the input frontier before this round: what it passed is late.
            now: processing time.
            ahead: the input frontier after it, as far as known: what ends by then need not go
                into state.
        """

    def advance(self, frontier: int, now: int, budget: PaneBudget) -> Iterator[PaneBatch]:
        """Fire what is due, in time order, until ``budget`` is spent.

        Args:
            frontier: the input frontier now.
            now: processing time.
            budget: asked before each timer.
        """

    def hold(self) -> int:
        """The earliest timestamp that a later pane of what is in state may have, or END.

        Not below the input frontier unless something older is in state, or due and not fired.
        """

    def next_wake(self) -> int | None:
        """The processing time at which something is due, if nothing else happens."""

    def has_due(self, frontier: int, now: int) -> bool:
        """Whether ``advance`` would fire something."""

    def commit(self) -> None:
        """The round is over for good."""

    def rollback(self) -> None:
        """The round did not happen, and the overlay was rolled back; blocks taken are gone."""
