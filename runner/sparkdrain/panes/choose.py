"""Chooses the kind of a GroupByKey of unbounded input by its windows and triggers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.transforms.trigger import AccumulationMode, AfterWatermark, DefaultTrigger
from apache_beam.transforms.trigger import _Never as Never
from apache_beam.transforms.window import TimestampCombiner

from sparkdrain.panes.behaviors import Closing, OnTime
from sparkdrain.panes.round_blocks import RoundBlocks
from sparkdrain.panes.triggered import TriggeredGrouping, needs_no_times
from sparkdrain.panes.window_ends import WindowEndGrouping

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sparkdrain.panes.grouping import Grouping
    from sparkdrain.shuffle.coding import ElementCoding
    from timers_state import Overlay


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
        closing: whether a window that expires without new elements has a last pane.
        on_time: whether a window that ends without new elements has an on-time pane.
    """
    blocks = RoundBlocks(memory_bytes, scratch)
    shared = windowing, key_coder, coding, overlay, state_id, blocks, memory_bytes, scratch
    if _waits_for_window_ends(windowing):
        return WindowEndGrouping(*shared, closing)
    return TriggeredGrouping(*shared, closing, on_time)
