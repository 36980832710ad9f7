"""A GroupByKey of unbounded input: what every kind of it promises, and which kind is for what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from apache_beam.transforms.trigger import AccumulationMode, AfterWatermark, DefaultTrigger
from apache_beam.transforms.trigger import _Never as Never
from apache_beam.transforms.window import TimestampCombiner

from sparkdrain.panes.behaviors import Closing, OnTime
from sparkdrain.panes.round_blocks import RoundBlocks
from sparkdrain.panes.times import BEGIN
from sparkdrain.panes.triggered import TriggeredGrouping, needs_no_times
from sparkdrain.panes.window_ends import WindowEndGrouping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sparkdrain.panes.budget import PaneBudget
    from sparkdrain.shuffle.coding import ElementCoding
    from timers_state import Overlay

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


def groups_by_window(windowing: Any) -> bool:
    """Whether the writer of the edge must group by window, without the timestamps of elements."""
    return needs_no_times(windowing)


def _waits_for_window_ends(windowing: Any) -> bool:
    """Whether panes need no more than keys and windows: no timestamp, nothing of a trigger."""
    trigger = windowing.triggerfn
    if windowing.windowfn.is_merging():
        return False
    if windowing.timestamp_combiner != TimestampCombiner.OUTPUT_AT_EOW:
        return False
    if type(trigger) is DefaultTrigger:
        # A late pane that has everything once more needs to find the values of its key.
        accumulates = windowing.accumulation_mode == AccumulationMode.ACCUMULATING
        return not (accumulates and windowing.allowed_lateness.micros)
    if type(trigger) is AfterWatermark:
        return not trigger.early and not trigger.late
    return type(trigger) is Never


def grouping_for(
    windowing: Any,
    key_coder: Any,
    coding: ElementCoding,
    overlay: Overlay,
    state_id: int,
    memory_bytes: int,
    scratch: Callable[[], Path],
    *,
    closing: Closing = Closing.IF_NOT_EMPTY,
    on_time: OnTime = OnTime.ALWAYS,
) -> Grouping:
    """The state machine for an edge.

    Args:
        windowing: of the PCollection that is grouped.
        key_coder: of its keys.
        coding: of its values.
        overlay: where state is kept.
        state_id: id of the state in the overlay; nothing else uses it.
        memory_bytes: how much of a round's input is kept in memory.
        scratch: where the rest of it goes, and panes that are large; asked for when needed.
        closing: whether a window that expires without new elements has a last pane. The caller
            gives IF_NOT_EMPTY: Beam's Python SDK writes ALWAYS into every pipeline without meaning
            it.
        on_time: whether a window that ends without new elements has an on-time pane.
    """
    blocks = RoundBlocks(memory_bytes, scratch)
    shared = windowing, key_coder, coding, overlay, state_id, blocks, memory_bytes, scratch
    if _waits_for_window_ends(windowing):
        return WindowEndGrouping(*shared, closing)
    return TriggeredGrouping(*shared, closing, on_time)
