"""Chooses the kind of a GroupByKey of unbounded input by its windows and triggers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.transforms.trigger import AccumulationMode, AfterWatermark, DefaultTrigger
from apache_beam.transforms.trigger import _Never as Never
from apache_beam.transforms.window import TimestampCombiner

from sparkdrain.panes.triggered import TriggeredGrouping
from sparkdrain.panes.window_ends import WindowEndGrouping

if TYPE_CHECKING:
    from sparkdrain.panes.grouping import Grouping, GroupingTerms


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


def grouping_for(terms: GroupingTerms) -> Grouping:
    """The state machine for an edge."""
    if _waits_for_window_ends(terms.windowing):
        return WindowEndGrouping(terms)
    return TriggeredGrouping(terms)
