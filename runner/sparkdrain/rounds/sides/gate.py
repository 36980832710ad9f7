"""The gate in front of a transform with side inputs: elements wait here until these are ready.

Beam's runners in Java call this pushback. An element that waits holds the frontier of everything
behind the gate. So it does not become late, and no window closes before it. A gate stands before
an input that takes elements as they are (FORWARD, SPREAD, KEYED), and behind an input that makes
elements (GROUP).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from apache_beam.transforms.window import WindowedValue
from typing_extensions import override

from sparkdrain.shuffle.elements import mixed_run
from sparkdrain.stages.shards.input import Input, Inside
from sparkdrain.stages.shards.inputs import ElementInput
from sparkdrain.stages.shards.source import Source
from sparkdrain.watermarks.frontier import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.panes.arrivals import RoundBlocks
    from sparkdrain.rounds.sides.doors import Doors
    from sparkdrain.rounds.sides.parking import Parking
    from sparkdrain.rounds.sides.sorting import GroupSorter, RunSorter
    from sparkdrain.shuffle.coding import ElementCoding
    from sparkdrain.stages.shards.input import Count
    from sparkdrain.stages.shards.turn import Turn

_BATCH = 1024


class Gate(Input):
    """What both kinds of gate have in common; an ``Input`` around another one."""

    def __init__(
        self, inner: Input, doors: Doors, parking: Parking, outlet: Callable[[memoryview], None]
    ) -> None:
        self.inner = inner
        """What it stands before, or behind."""
        self._doors = doors
        self._parking = parking
        self._outlet = outlet
        self._now: int | None = None

    @property
    @override
    def reason(self) -> str:
        return "side input" if self._parking.hold() < self.inner.hold() else self.inner.reason

    def passed(self) -> int:
        """The time up to which no window of a side input will be read anymore."""
        return min(self._parking.passed, self.inner.hold())

    def _admits(self, door: bytes) -> bool:
        return not self._parking.is_waiting(door) and self._doors.is_open(door)

    def _release(self, turn: Turn) -> None:
        """Let through what waits at doors that have opened, a page at least."""
        self._now = turn.now
        self._parking.of_drain = turn.of_drain
        for door in self._parking.doors():
            if not self._doors.is_open(door):
                continue
            for page in self._parking.take_out(door):
                for payload, count in page:
                    self._outlet(memoryview(payload))
                    turn.budget.spend(count)
                if turn.budget.is_spent():
                    return

    @override
    def hold(self) -> int:
        return min(self._parking.hold(), self.inner.hold())

    @override
    def wake(self) -> int | None:
        if self._now is not None and any(map(self._doors.is_open, self._parking.all_doors())):
            return self._now
        return self.inner.wake()

    @override
    def inside(self, count: Count) -> Inside:
        return Inside(parked=self._parking.count()) + self.inner.inside(count)

    @override
    def commit(self) -> None:
        self.inner.commit()

    @override
    def close(self) -> None:
        self.inner.close()


class FrontGate(Gate):
    """A gate that blocks pass before they get to their input.

    Args:
        blocks: where those of a round are until its side inputs are there.
        feed: takes windowed values in place of a block of them, if the input only feeds these.
        lasting: whether an element may go on beyond the end of its window, as one does that is
            processed in parts: its side inputs are needed until the input has nothing left.
    """

    def __init__(
        self,
        inner: Input,
        doors: Doors,
        parking: Parking,
        sorter: RunSorter | GroupSorter,
        blocks: RoundBlocks,
        feed: Callable[[list[Any]], None] | None = None,
        *,
        lasting: bool = False,
    ) -> None:
        super().__init__(inner, doors, parking, inner.take)
        self._lasting = lasting
        self._idle_at = BEGIN
        self._sorter = sorter
        self._feed = feed
        self._blocks = blocks

    @override
    def passed(self) -> int:
        if not self._lasting:
            return super().passed()
        if self.inner.hold() == END:
            self._idle_at = self._parking.passed
        return self._idle_at

    @override
    def take(self, payload: memoryview) -> None:
        self._blocks.add(payload)

    @override
    def process(self, turn: Turn) -> None:
        self._release(turn)
        for payload in self._blocks.take_all():
            self._let_in(memoryview(payload))
        self.inner.process(self._behind(turn))

    @override
    def advance(self, turn: Turn) -> None:
        behind = self._behind(turn)
        self._parking.passed = behind.after
        self.inner.advance(behind)

    def _behind(self, turn: Turn) -> Turn:
        """A turn as it is behind the gate: what waits has not come yet."""
        before = self._parking.passed
        after = max(before, min(turn.after, self._parking.hold()))
        return replace(turn, before=before, after=after)

    def _let_in(self, payload: memoryview) -> None:
        if self._doors.only is None:
            self._sort(payload)
        elif self._admits(self._doors.only):
            self._outlet(payload)
        else:
            count, earliest = self._sorter.measure(payload)
            self._parking.park(self._doors.only, bytes(payload), count, earliest)

    def _sort(self, payload: memoryview) -> None:
        for lot in self._sorter.sort(payload, self._admits, self._parking.passed):
            if lot.door is None and lot.elements is not None and self._feed is not None:
                self._feed(lot.elements)
            elif lot.door is None:
                self._outlet(memoryview(lot.payload))
            else:
                self._parking.park(lot.door, bytes(lot.payload), lot.count, lot.earliest)

    @override
    def take_dropped(self) -> int:
        dropped, self._sorter.dropped = self._sorter.dropped, 0
        return dropped + self.inner.take_dropped()

    @override
    def close(self) -> None:
        self._blocks.clear()
        super().close()


class Valve(Source):
    """What an input behind which a gate stands takes for its source."""

    def __init__(
        self, source: Source, doors: Doors, parking: Parking, coding: ElementCoding
    ) -> None:
        self._source = source
        self._doors = doors
        self._parking = parking
        self._coding = coding
        self.shard = source.shard
        self.dropped = 0

    def feed(self, values: list[Any], context: Any) -> None:
        """Let values through, or park them."""
        parts = self._doors.split(context.windows, self._parking.passed)
        for door, windows in parts.items():
            part = context
            if len(parts) > 1:
                part = WindowedValue(None, context.timestamp, tuple(windows), context.pane_info)
            if door is None:
                self.dropped += len(values) * len(windows)
            elif not self._parking.is_waiting(door) and self._doors.is_open(door):
                self._source.feed(values, part)
            else:
                self._park(door, values, part)

    def _park(self, door: bytes, values: list[Any], context: Any) -> None:
        for start in range(0, len(values), _BATCH):
            elements = [context.with_value(value) for value in values[start : start + _BATCH]]
            payload = mixed_run(elements, self._coding)
            self._parking.park(door, payload, len(elements), context.timestamp_micros)

    def feed_windowed(self, elements: list[Any]) -> None:
        """Let elements through, or park them."""
        for element in elements:
            self.feed([element.value], element)


class BackGate(Gate):
    """A gate behind its input.

    Args:
        make: makes the input for a source.
        source: what it feeds in the end.
        coding: how the elements are encoded that the input feeds.
    """

    def __init__(
        self,
        make: Callable[[Source], Input],
        source: Source,
        doors: Doors,
        parking: Parking,
        coding: ElementCoding,
    ) -> None:
        self._valve = Valve(source, doors, parking, coding)
        super().__init__(make(self._valve), doors, parking, ElementInput(coding, source).take)

    @override
    def take(self, payload: memoryview) -> None:
        self.inner.take(payload)

    @override
    def process(self, turn: Turn) -> None:
        self._release(turn)
        self.inner.process(turn)

    @override
    def advance(self, turn: Turn) -> None:
        self._parking.of_drain = turn.of_drain
        self.inner.advance(turn)
        self._parking.passed = max(self._parking.passed, min(turn.after, self.hold()))

    @override
    def take_dropped(self) -> int:
        dropped, self._valve.dropped = self._valve.dropped, 0
        return dropped + self.inner.take_dropped()
