"""Inputs: where elements enter a stage, round by round, and what is left inside of them.

Batch and streaming jobs share those for elements of an exchange, impulses and groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.transforms.window import GlobalWindows
from typing_extensions import override

from sparkdrain.shuffle.elements import read_runs
from sparkdrain.stages.shards.input import Input, Inside
from sparkdrain.watermarks.frontier import BEGIN
from timers_state import Domain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparkdrain.graph.plan import Stage
    from sparkdrain.shuffle.coding import ElementCoding
    from sparkdrain.stages.shards.input import Count
    from sparkdrain.stages.shards.source import Source
    from sparkdrain.stages.shards.turn import Turn

_IMPULSE = GlobalWindows.windowed_value(b"")


class ElementInput(Input):
    """Feeds the elements of an exchange as they come."""

    def __init__(self, coding: ElementCoding, source: Source) -> None:
        self._coding = coding
        self._source = source

    def take(self, payload: memoryview) -> None:
        """Feed a block."""
        for context, values in read_runs(payload, self._coding):
            if context is None:
                self._source.feed_windowed(values)
            else:
                self._source.feed(values, context)


def begins_in(stages: Sequence[Stage], stage: Stage, slots: int) -> int:
    """The slot in which the roots of a stage begin, one of a level's ``stages``.

    Slots take turns, so that independent beginnings run beside each other.
    """
    roots = [other for other in stages if any(edge is None for _, edge in other.sources)]
    return roots.index(stage) % slots


class ImpulseInput(Input):
    """One empty string in the first round of one slot; then the end of time."""

    def __init__(self, source: Source, *, mine: bool) -> None:
        self._source = source
        self._mine = mine

    def process(self, turn: Turn) -> None:
        """Send the impulse, if it was not sent yet."""
        if self._mine and turn.before == BEGIN:
            self._source.feed([b""], _IMPULSE)


class GroupInput(Input):
    """GroupByKey: see ``sparkdrain.panes``."""

    reason = "windows"

    def __init__(self, grouping: Any, source: Source, state_id: int) -> None:
        self._grouping = grouping
        self._state_id = state_id
        self._source = source
        self._dropped = 0
        self._turn: Turn | None = None

    @property
    def spilled(self) -> int:
        """Bytes of input that went to disk."""
        return int(self._grouping.spilled_bytes)

    @override
    def take_dropped(self) -> int:
        dropped, self._dropped = int(self._grouping.dropped) - self._dropped, self._grouping.dropped
        return dropped

    @override
    def take(self, payload: memoryview) -> None:
        self._grouping.take(payload)

    @override
    def process(self, turn: Turn) -> None:
        self._feed(self._grouping.process(turn.before, turn.now, turn.after))

    @override
    def advance(self, turn: Turn) -> None:
        self._turn = turn
        self._feed(self._grouping.advance(turn.after, turn.now, turn.budget))

    def _feed(self, batches: Any) -> None:
        for context, pairs in batches:
            self._source.feed(pairs, context)

    @override
    def hold(self) -> int:
        return int(self._grouping.hold())

    @override
    def wake(self) -> int | None:
        turn = self._turn
        if turn is not None and self._grouping.has_due(turn.after, turn.now):
            return turn.now
        wake: int | None = self._grouping.next_wake()
        return wake

    def inside(self, count: Count) -> Inside:
        """See ``Input``; of keys that share a window, those that share a timer count once."""
        domains = Domain.EVENT, Domain.EXPIRY
        return Inside(windows=sum(count(self._state_id, domain) for domain in domains))

    @override
    def commit(self) -> None:
        self._grouping.commit()

    @override
    def close(self) -> None:
        self._grouping.rollback()
