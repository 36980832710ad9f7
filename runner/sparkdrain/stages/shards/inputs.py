"""Inputs: where elements enter a stage, round by round, and what is left inside of them.

Batch and streaming jobs share those for elements of an exchange, impulses and groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apache_beam.transforms.window import GlobalWindows
from typing_extensions import override

from sparkdrain.shuffle.elements import read_runs
from sparkdrain.watermarks.frontier import BEGIN, END
from timers_state import Domain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparkdrain.graph.plan import Stage, TransformId
    from sparkdrain.shuffle.coding import ElementCoding
    from sparkdrain.stages.shards.shard import Shard
    from sparkdrain.stages.shards.turn import Turn

Count = Callable[[int, Domain], int]
"""How many timers a state has, by its number, that follow a clock."""
# Elements fed at one go; between two goes, deferred work is looked after.
_FEED = 4096
_IMPULSE = GlobalWindows.windowed_value(b"")


@dataclass(frozen=True, slots=True)
class Inside:
    """How much is left inside of some inputs, with the meaning that ``drain.progress.Left`` has.

    Attributes:
        windows: windows with content, counted for each key.
        timers: timers of user code that are still to fire.
        parked: elements that wait for something.
        residuals: restrictions that are still to be processed.
    """

    windows: int = 0
    timers: int = 0
    parked: int = 0
    residuals: int = 0

    def __add__(self, other: Inside) -> Inside:
        return Inside(
            self.windows + other.windows,
            self.timers + other.timers,
            self.parked + other.parked,
            self.residuals + other.residuals,
        )


NOTHING = Inside()


class Input:
    """One way into a stage. Its state is in the slot's overlay: a round can be undone.

    As it is here, it takes nothing and keeps nothing.
    """

    @property
    def reason(self) -> str:
        """Why it holds the output frontier back, in a word or two."""
        return ""

    @property
    def spilled(self) -> int:
        """Bytes of input that went to disk."""
        return 0

    def take(self, payload: memoryview) -> None:
        """Take a block of the edge in; more may come."""

    def process(self, turn: Turn) -> None:
        """All blocks of the round were taken: process what they brought."""

    def advance(self, turn: Turn) -> None:
        """The frontier is ``turn.after``: fire what is due, as far as the budget goes."""

    def hold(self) -> int:
        """The earliest time that elements made later may have; END if none will be."""
        return END

    def wake(self) -> int | None:
        """The processing time at which there is something to do, even without input."""
        return None

    def take_dropped(self) -> int:
        """How many elements were dropped as late since the last call."""
        return 0

    def commit(self) -> None:
        """What happened in the last round counts."""

    def inside(self, count: Count) -> Inside:
        """What is left, as it was committed."""
        return NOTHING

    def close(self) -> None:
        """Give files back."""


class Source:
    """Where the elements of an edge enter a shard."""

    def __init__(self, shard: Shard, transform: TransformId) -> None:
        self.shard = shard
        self.transform = transform

    def feed(self, values: list[Any], context: Any) -> None:
        """Process values that share the metadata of ``context``."""
        if not values:
            return
        inlet = self.shard.open().inlet(self.transform)
        for start in range(0, len(values), _FEED):
            inlet.feed(values[start : start + _FEED], context)
            self.shard.resume_due()

    def feed_windowed(self, elements: list[Any]) -> None:
        """Process windowed values."""
        if not elements:
            return
        inlet = self.shard.open().inlet(self.transform)
        for start in range(0, len(elements), _FEED):
            inlet.feed_windowed(elements[start : start + _FEED])
            self.shard.resume_due()

    def tell_more(self, transform: TransformId, *, more: bool) -> None:
        """Tell a DoFn, if it wants to know, whether further elements are safe."""
        harness = self.shard.opened
        if harness is not None:
            harness.tell_more(transform, more=more)

    def split(self, keep: float) -> list[Any]:
        """Give a part of the work away, see ``Inlet.split``; may be called from any thread."""
        harness = self.shard.opened
        return [] if harness is None else harness.inlet(self.transform).split(keep)


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
