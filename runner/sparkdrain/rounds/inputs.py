"""Where elements enter a stage, round by round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from apache_beam.testing.test_stream import WindowedValueHolder
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.timestamp import Timestamp
from typing_extensions import override

from sparkdrain.rounds.inside import NOTHING, Inside
from sparkdrain.shuffle.elements import read_runs
from sparkdrain.watermarks.frontier import BEGIN, END
from timers_state import Domain

if TYPE_CHECKING:
    from sparkdrain.rounds.budget import Budget
    from sparkdrain.rounds.inside import Count
    from sparkdrain.rounds.messages import Feed
    from sparkdrain.shuffle.coding import ElementCoding
    from sparkdrain.stages.shard import Source

_IMPULSE = GlobalWindows.windowed_value(b"")


@dataclass(frozen=True, slots=True)
class Turn:
    """What an input is told in a round.

    Attributes:
        before: its frontier when the round began: what is older than that is late.
        after: its frontier now.
        now: processing time, microseconds.
        budget: how much may be made.
        feed: what the driver gives to a source that it plays itself.
        held: sources give nothing.
        draining: the job is drained.
        of_drain: the second part of a drained round: the drain has caused what is fed and fired.
        complete: up to where all elements are there, if that is more than ``after``.
        repeats: how many generations of timers may be set by timers; None: any number.
    """

    before: int
    after: int
    now: int
    budget: Budget
    feed: Feed | None = None
    held: bool = False
    draining: bool = False
    of_drain: bool = False
    complete: int | None = None
    repeats: int | None = None

    @property
    def complete_until(self) -> int:
        """Up to where all elements are there."""
        return self.after if self.complete is None else self.complete


class Input(Protocol):
    """One way into a stage. Its state is in the slot's overlay: a round can be undone."""

    @property
    def reason(self) -> str:
        """Why it holds the output frontier back, in a word or two."""

    def take(self, payload: memoryview) -> None:
        """Take a block of the edge in; more may come."""

    def process(self, turn: Turn) -> None:
        """All blocks of the round were taken: process what they brought."""

    def advance(self, turn: Turn) -> None:
        """The frontier is ``turn.after``: fire what is due, as far as the budget goes."""

    def hold(self) -> int:
        """The earliest time that elements made later may have; END if none will be."""

    def wake(self) -> int | None:
        """The processing time at which there is something to do, even without input."""

    def take_dropped(self) -> int:
        """How many elements were dropped as late since the last call."""

    def commit(self) -> None:
        """What happened in the last round counts."""

    def inside(self, count: Count) -> Inside:
        """What is left, as it was committed."""

    def close(self) -> None:
        """Give files back."""


class Plain(Input):
    """An input that keeps nothing between rounds."""

    reason = ""

    @override
    def take_dropped(self) -> int:
        return 0

    @override
    def take(self, payload: memoryview) -> None:
        pass

    @override
    def process(self, turn: Turn) -> None:
        pass

    @override
    def advance(self, turn: Turn) -> None:
        pass

    @override
    def hold(self) -> int:
        return END

    @override
    def wake(self) -> int | None:
        return None

    @override
    def commit(self) -> None:
        pass

    @override
    def inside(self, count: Count) -> Inside:
        del count
        return NOTHING

    @override
    def close(self) -> None:
        pass


class ElementInput(Plain):
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


class ImpulseInput(Plain):
    """One empty string in the first round of one slot; then the end of time."""

    def __init__(self, source: Source, *, mine: bool) -> None:
        self._source = source
        self._mine = mine

    def process(self, turn: Turn) -> None:
        """Send the impulse, if it was not sent yet."""
        if self._mine and turn.before == BEGIN:
            self._source.feed([b""], _IMPULSE)


class FeedInput(Plain):
    """What the driver plays, see ``driver.test_stream``; one slot takes it."""

    def __init__(self, coder: Any, source: Source, *, mine: bool) -> None:
        self._decode = coder.decode
        self._source = source
        self._mine = mine

    def process(self, turn: Turn) -> None:
        """Send the elements of the round's event, if it has any.

        Raises:
            ValueError: the driver does not play the source.
        """
        if turn.feed is None:
            message = (
                "a TestStream is in the plan, but the driver does not play it: see "
                "test_stream.play_for"
            )
            raise ValueError(message)
        if self._mine:
            self._source.feed_windowed([self._element(*event) for event in turn.feed.elements])

    def _element(self, encoded: bytes, time: int) -> Any:
        value = self._decode(encoded)
        # Beam's TestStream takes an element with windows of its own as a row of this form.
        if isinstance(value, WindowedValueHolder):
            return value.windowed_value
        return GlobalWindows.windowed_value(value, Timestamp(micros=time))


class GroupInput(Input):
    """GroupByKey: see ``sparkdrain.panes``."""

    reason = "windows"

    def __init__(self, grouping: Any, source: Source, state_id: int) -> None:
        self._grouping = grouping
        self._state_id = state_id
        self._source = source
        self._dropped = 0
        self._turn: Turn | None = None

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
        self._feed(self._grouping.advance(turn.after, turn.now, _Firings(turn.budget)))

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


class _Firings:
    """A round's budget, as ``panes`` asks for it."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def spend(self) -> bool:
        if self._budget.is_spent():
            return False
        self._budget.spend(1)
        return True

    def count(self, pairs: int) -> None:
        self._budget.spend(pairs)
