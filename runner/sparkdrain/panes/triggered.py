"""Grouping with every trigger and with windows that merge."""

from __future__ import annotations

import struct
from collections import defaultdict
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from apache_beam.transforms.window import IntervalWindow, TimestampCombiner
from apache_beam.utils.timestamp import Timestamp
from typing_extensions import override

from sparkdrain.panes.arrivals import sorted_out, values_in
from sparkdrain.panes.firing import PaneFiring
from sparkdrain.panes.grouping import Grouping
from sparkdrain.panes.key_windows import KeyWindows
from sparkdrain.panes.pane_values import PaneValues
from sparkdrain.panes.rules import Rules
from sparkdrain.panes.times import BEGIN, END, whole_millis
from sparkdrain.panes.trigger import Moment
from timers_state import Domain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sparkdrain.panes.firing import Pane
    from sparkdrain.panes.grouping import GroupingTerms, PaneBatch, PaneBudget
    from sparkdrain.panes.key_windows import OpenWindow

_COUNT = struct.Struct(">i")
# Values of a pane may take some megabytes.
_BATCH = 64
# As Beam's coder has them; the public properties make an object each.
_SPAN = attrgetter("_start_micros", "_end_micros")


def needs_no_times(windowing: Any) -> bool:
    """Whether windows and panes depend on the windows of elements, and on nothing else of them."""
    return (
        not windowing.windowfn.is_merging()
        and windowing.timestamp_combiner == TimestampCombiner.OUTPUT_AT_EOW
    )


class TriggeredGrouping(Grouping):
    """Panes as a trigger says.

    Per key there is a table of its windows, each with what the trigger remembers of it, and a bag
    of values for each. A window has a timer in event time, at its end or, if the trigger does not
    wait for that, at its expiry; and others as the trigger and the timestamps of panes ask for.
    """

    def __init__(self, terms: GroupingTerms) -> None:
        super().__init__(terms)
        coding = terms.coding
        self._decode_elements = coding.windowed_values.decode
        self._encode_values = coding.values.encode
        self._by_window = needs_no_times(terms.windowing)
        self._rules = Rules(terms)
        self._firing = PaneFiring(self._rules, PaneValues(coding.coder, terms.scratch))

    @override
    def process(self, frontier: int, now: int, ahead: int = BEGIN) -> Iterator[PaneBatch]:
        return self._shared_panes(self._processed(frontier, now))

    @override
    def advance(self, frontier: int, now: int, budget: PaneBudget) -> Iterator[PaneBatch]:
        yield from self._shared_panes(self._ended(frontier, now, budget))
        yield from self._shared_panes(self._woken(frontier, now, budget))

    @override
    def hold(self) -> int:
        held = self._first(Domain.HOLD)
        event = self._first(Domain.EVENT)
        return min(END if held is None else held, END if event is None else whole_millis(event - 1))

    @override
    def next_wake(self) -> int | None:
        return self._first(Domain.PROCESSING)

    @override
    def has_due(self, frontier: int, now: int) -> bool:
        event = self._first(Domain.EVENT)
        wake = self._first(Domain.PROCESSING)
        return (event is not None and event <= frontier) or (wake is not None and wake <= now)

    def _windows(self, key: bytes) -> KeyWindows:
        return KeyWindows(self._rules, self._overlay.scope(self._state_id, key))

    def _shared_panes(self, panes: Iterable[tuple[bytes, Pane]]) -> Iterator[PaneBatch]:
        """Panes of several keys together, if they are alike."""
        pairs: list[Any] = []
        context: Any = None
        for key, (found, values) in panes:
            if found is not context or len(pairs) >= _BATCH:
                if pairs:
                    yield context, pairs
                    pairs = []
                context = found
            pairs.append((self._decode_key(key), values))
        if pairs:
            yield context, pairs

    def _processed(self, frontier: int, now: int) -> Iterator[tuple[bytes, Pane]]:
        for section, _, groups in sorted_out(self._blocks.take_all(), self._memory_bytes):
            if self._by_window and frontier >= self._rules.times(section).expiry:
                self.dropped += values_in(groups[1])
                continue
            by_key: dict[bytes, list[bytes]] = defaultdict(list)
            for key, chunk in zip(*groups, strict=True):
                by_key[key].append(chunk)
            for key, chunks in by_key.items():
                for pane in self._put(key, section, chunks, frontier, now):
                    yield key, pane

    def _ended(self, frontier: int, now: int, budget: PaneBudget) -> Iterator[tuple[bytes, Pane]]:
        for key, timer in self._due(Domain.EVENT, frontier, budget):
            windows = self._windows(key)
            found = windows.of_timer(timer.window)
            if found is not None:
                found.state.event = None
                panes = self._firing.at_time(windows, found, timer.time, now)
                windows.save(now)
                for pane in panes:
                    yield key, pane

    def _woken(self, frontier: int, now: int, budget: PaneBudget) -> Iterator[tuple[bytes, Pane]]:
        for key, timer in self._due(Domain.PROCESSING, now, budget):
            windows = self._windows(key)
            found = windows.of_timer(timer.window)
            if found is not None:
                found.state.wake = None
                pane = self._firing.ask(windows, found, frontier, now, by_timer=False)
                windows.save(now)
                if pane is not None:
                    yield key, pane

    def _put(
        self, key: bytes, section: bytes, chunks: list[bytes], frontier: int, now: int
    ) -> list[Pane]:
        """Add elements of a key; returns the panes that this makes."""
        windows = self._windows(key)
        touched: dict[bytes, None] = {}
        for chunk in chunks:
            if self._by_window:
                self._add_values(windows, section, chunk, touched, frontier, now)
            else:
                touched = self._add_elements(windows, chunk, touched, frontier, now)
        asked = [
            self._firing.ask(windows, windows.find(window), frontier, now, by_timer=False)
            for window in touched
        ]
        windows.save(now)
        return [pane for pane in asked if pane is not None]

    def _add_values(
        self,
        windows: KeyWindows,
        section: bytes,
        chunk: bytes,
        touched: dict[bytes, None],
        frontier: int,
        now: int,
    ) -> None:
        """Add a chunk of values as it is."""
        count = _COUNT.unpack_from(chunk)[0]
        found = windows.find(section)
        if found.state.finished:
            self.dropped += count
            return
        touched[section] = None
        hold = self._rules.output_time.of_elements(found.window, found.times, [], frontier)
        self._arrived(found, count, hold, frontier, now)
        windows.append(found, chunk)

    def _add_elements(
        self,
        windows: KeyWindows,
        chunk: bytes,
        touched: dict[bytes, None],
        frontier: int,
        now: int,
    ) -> dict[bytes, None]:
        """Add a chunk of elements; returns the windows with new elements, as they are then."""
        arrived = self._sorted_out(chunk, frontier)
        if self._rules.merges:
            into = windows.merge(list(arrived))
            if into:
                touched = {into.get(window, window): None for window in touched}
                united: dict[bytes, list[Any]] = {}
                for window, elements in arrived.items():
                    united.setdefault(into.get(window, window), []).extend(elements)
                arrived = united
        for window, elements in arrived.items():
            found = windows.find(window)
            if found.state.finished:
                self.dropped += len(elements)
                continue
            touched[window] = None
            hold = self._rules.output_time.of_elements(
                found.window, found.times, elements, frontier
            )
            self._arrived(found, len(elements), hold, frontier, now)
            windows.append(found, self._encode_values([element.value for element in elements]))
        return touched

    def _arrived(
        self, found: OpenWindow, count: int, hold: int | None, frontier: int, now: int
    ) -> None:
        state = found.state
        state.hold = self._rules.output_time.combined((state.hold, hold))
        state.fresh = True
        self._rules.trigger.add(state.numbers, count, Moment(frontier, now, found.times.end))

    def _sorted_out(self, chunk: bytes, frontier: int) -> dict[bytes, list[Any]]:
        """The elements of a chunk by window, without those whose window has expired."""
        elements = self._decode_elements(chunk)
        encode, times = self._rules.encode_window, self._rules.times
        if self._rules.sessions and len(elements) > 1:
            ended = END if frontier == END else frontier - self._rules.lateness
            sessions, expired = _sessions_of(elements, ended + 1)
            self.dropped += expired
            return {encode(window): members for window, members in sessions.items()}
        arrived: dict[bytes, list[Any]] = {}
        for element in elements:
            for window in element.windows:
                encoded = encode(window)
                known = arrived.get(encoded)
                if known is not None:
                    known.append(element)
                elif frontier >= times(encoded).expiry:
                    self.dropped += 1
                else:
                    arrived[encoded] = [element]
        return arrived


def _sessions_of(elements: list[Any], earliest_end: int) -> tuple[dict[Any, list[Any]], int]:
    """The sessions that elements with windows of Beam's ``Sessions`` make, and their elements.

    So they are united before a trigger looks at one of them. Sessions that only touch do not
    unite, as with Beam.

    Args:
        elements: windowed values.
        earliest_end: elements whose own window ends before this, in microseconds, are left out.

    Returns:
        Elements by window, and how many were left out.
    """
    spans = [(*_SPAN(window), element) for element in elements for window in element.windows]
    live = [span for span in spans if span[1] >= earliest_end]
    live.sort(key=itemgetter(0))
    sessions: dict[Any, list[Any]] = {}
    members: list[Any] = []
    first = last = 0
    for start, end, element in live:
        if members and start < last:
            last = max(last, end)
            members.append(element)
            continue
        if members:
            sessions[IntervalWindow(Timestamp(micros=first), Timestamp(micros=last))] = members
        first, last, members = start, end, [element]
    if members:
        sessions[IntervalWindow(Timestamp(micros=first), Timestamp(micros=last))] = members
    return sessions, len(spans) - len(live)
