"""Grouping where the end of the window is all that a pane waits for.

Nothing is kept per key: all keys of a key group that have values in a window share a bag, of blocks
as they travelled, and a timer. At the end of the window the bag is merged by key.
"""

from __future__ import annotations

import struct
from contextlib import closing as closed_after
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from apache_beam.transforms.trigger import DefaultTrigger
from apache_beam.transforms.trigger import _Never as Never
from apache_beam.transforms.window import WindowedValue
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming
from typing_extensions import override

from sparkdrain.panes.arrivals import Passing, sorted_out, values_in
from sparkdrain.panes.grouping import Grouping
from sparkdrain.panes.pane_values import PaneValues
from sparkdrain.panes.times import BEGIN, END, WindowTimes, whole_millis
from sparkdrain.shuffle.group_by_key import in_millis
from sparkdrain.shuffle.grouped_blocks import encode_groups
from sparkdrain.shuffle.merging import GroupMerger
from timers_state import Domain

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from sparkdrain.panes.arrivals import Groups
    from sparkdrain.panes.grouping import GroupingTerms, PaneBatch, PaneBudget
    from timers_state import KeyScope

# Encoded, and what Python needs for a pair.
_BATCH_BYTES = 4 << 20
_PAIR_BYTES = 2048
_MOST_PASSING = 64 << 20
_WINDOWS_REMEMBERED = 256
# A late pane of a key has the next number; a window that takes late elements for days has many.
_PANES_REMEMBERED = 16
_PANES = struct.Struct(">I")
_VALUES, _PANES_TAG, _TIMER = b"v", b"p", b"t"
_CLOSED = b""

EndedPairs = tuple[Any, list[Any], int]
"""What goes with some pairs, the pairs, and their size in memory."""


class EndingWindow:
    """A window whose panes wait for its end: when it fires, and what goes with its panes.

    Args:
        section: the window, encoded.
        lateness: what is allowed, in microseconds.
        at_expiry: whether its only pane comes when it expires.
    """

    def __init__(self, section: bytes, window: Any, lateness: int, at_expiry: bool) -> None:
        self.section = section
        self.times = WindowTimes(window, lateness)
        self.fires = self.times.expiry if at_expiry else self.times.end
        self._window = window
        self.context = lru_cache(_PANES_REMEMBERED)(self._context)
        """What goes with a pane: the same object for the same pane of every key."""

    def _context(self, index: int, *, on_time: bool, last: bool) -> Any:
        timing = PaneInfoTiming.ON_TIME if on_time else PaneInfoTiming.LATE
        info = PaneInfo(index == 0, last, timing, index, index)
        end = in_millis(self._window.max_timestamp())
        return WindowedValue(None, end, (self._window,), info)


class WindowEndGrouping(Grouping):
    """One pane per key and window at the window's end; more only if late elements are allowed.

    Once the pane on time was handed out and if elements may be late, what is kept is a number per
    key, of panes so far (or that no more are wanted), until the window expires.
    """

    def __init__(self, terms: GroupingTerms) -> None:
        super().__init__(terms)
        self._decode_window = terms.coding.window.get_impl().decode
        self._values = PaneValues(terms.coding.coder, terms.scratch)
        self._scratch = terms.scratch
        self._lateness = terms.windowing.allowed_lateness.micros
        # Never only closes windows; AfterWatermark closes a window with its first pane.
        self._at_expiry = type(terms.windowing.triggerfn) is Never
        self._fires_late = type(terms.windowing.triggerfn) is DefaultTrigger
        self._closes_always = terms.closes_always
        self._enter = lru_cache(_WINDOWS_REMEMBERED)(self._ending_window)
        self._passing = Passing(min(terms.memory_bytes // 4, _MOST_PASSING))
        # The windows that have something in state, with the times when they fire; None: unknown.
        self._waiting: dict[bytes, int] | None = None

    @override
    def process(self, frontier: int, now: int, ahead: int = BEGIN) -> Iterator[PaneBatch]:
        if self._first(Domain.EVENT) is None:
            self._waiting = {}
        for section, group, groups in sorted_out(self._blocks.take_all(), self._memory_bytes):
            window = self._enter(section)
            if frontier < window.fires:
                if not self._passes(group, window, groups, ahead):
                    self._wait(group, window, groups)
            elif frontier >= window.times.expiry:
                self.dropped += values_in(groups[1])
            else:
                yield from self._late(group, window, groups)

    def _passes(self, group: bytes, window: EndingWindow, groups: Groups, ahead: int) -> bool:
        """Keep out of state what will be handed out in this round anyway, if there is room."""
        if window.fires > ahead or self._waiting is None or window.section in self._waiting:
            return False
        return self._passing.put(window.fires, window.section, group, groups)

    @override
    def advance(self, frontier: int, now: int, budget: PaneBudget) -> Iterator[PaneBatch]:
        yield from _together(self._ended(frontier, budget))
        for group, timer in self._due(Domain.EXPIRY, frontier, budget):
            yield from self._expire(group, self._enter(timer.window))
        self._forget_ended()

    def _ended(self, frontier: int, budget: PaneBudget) -> Iterator[EndedPairs]:
        """Panes on time, in the order of their times; what is not handed out is in state then."""
        for fires in self._passing.times():
            yield from self._ended_in_state(min(fires, frontier), budget)
            first = self._first(Domain.EVENT)
            if fires > frontier or (first is not None and first <= fires):
                break
            yield from self._ended_in_passing(fires, budget)
        for section, group, groups in self._passing.take(END):
            self._wait(group, self._enter(section), groups)
        yield from self._ended_in_state(frontier, budget)

    def _ended_in_state(self, up_to: int, budget: PaneBudget) -> Iterator[EndedPairs]:
        for group, timer in self._due(Domain.EVENT, up_to, budget):
            window = self._enter(timer.window)
            context = window.context(0, on_time=True, last=self._closes(window))
            for pairs, size in self._end(group, window):
                yield context, pairs, size
                budget.spend(len(pairs))

    def _ended_in_passing(self, fires: int, budget: PaneBudget) -> Iterator[EndedPairs]:
        for section, group, groups in self._passing.take(fires):
            window = self._enter(section)
            if budget.is_spent():
                self._wait(group, window, groups)
                return
            budget.spend(1)
            context = window.context(0, on_time=True, last=self._closes(window))
            stays = window.fires < window.times.expiry
            by_key: dict[bytes, list[bytes]] = {}
            for key, chunk in zip(*groups, strict=True):
                by_key.setdefault(key, []).append(chunk)
            pairs = []
            size = 0
            for key in sorted(by_key):
                if stays:
                    scope = self._overlay.scope(self._state_id, group)
                    self._count_pane(scope, window, key, 1)
                chunks = by_key[key]
                pairs.append((self._decode_key(key), self._values.in_memory(chunks)))
                size += sum(map(len, chunks)) + _PAIR_BYTES
            yield context, pairs, size
            budget.spend(len(pairs))

    def _forget_ended(self) -> None:
        if self._waiting:
            first = self._first(Domain.EVENT)
            still = self._waiting.items() if first is not None else ()
            self._waiting = {section: fires for section, fires in still if fires >= (first or 0)}

    @override
    def rollback(self) -> None:
        super().rollback()
        self._passing.clear()
        self._waiting = None

    @override
    def hold(self) -> int:
        domains = (Domain.EVENT, Domain.EXPIRY) if self._closes_always else (Domain.EVENT,)
        times = [self._first(domain) for domain in domains]
        return min((whole_millis(time - 1) for time in times if time is not None), default=END)

    def next_wake(self) -> int | None:
        """See ``Grouping``: processing time does not count here."""
        return None

    @override
    def has_due(self, frontier: int, now: int) -> bool:
        return any(
            first is not None and first <= frontier
            for first in (self._first(Domain.EVENT), self._first(Domain.EXPIRY))
        )

    def _ending_window(self, section: bytes) -> EndingWindow:
        decoded = self._decode_window(section)
        return EndingWindow(section, decoded, self._lateness, self._at_expiry)

    def _wait(self, group: bytes, window: EndingWindow, groups: Groups) -> None:
        if self._waiting is not None:
            self._waiting[window.section] = window.fires
        scope = self._overlay.scope(self._state_id, group)
        bag = scope.bag(_VALUES, window.section)
        timers = scope.timers(Domain.EVENT)
        if timers.time_of(_TIMER, b"", window.section) is None:
            timers.set(window.fires, _TIMER, b"", window.section)
        bag.append(encode_groups(b"", *groups))

    def _late(self, group: bytes, window: EndingWindow, groups: Groups) -> Iterator[PaneBatch]:
        """Panes of what came after the end of its window."""
        scope = self._overlay.scope(self._state_id, group)
        if scope.timers(Domain.EVENT).time_of(_TIMER, b"", window.section) is not None:
            # The pane on time is due, but there was no time for it: these still belong to it.
            self._wait(group, window, groups)
            return
        panes = scope.map(_PANES_TAG, window.section)
        with closed_after(self._merged([encode_groups(b"", *groups)])) as merged:
            for key, chunks in merged:
                before = panes.get(key)
                if before == _CLOSED:
                    self.dropped += values_in(_loaded(chunks))
                    continue
                index = _number(before)
                self._count_pane(scope, window, key, index + 1)
                context = window.context(index, on_time=False, last=not self._fires_late)
                yield context, [(self._decode_key(key), self._values.of(_loaded(chunks)))]

    def _end(self, group: bytes, window: EndingWindow) -> Iterator[tuple[list[Any], int]]:
        """The pairs of all keys of a key group whose window's time has come, and their sizes."""
        scope = self._overlay.scope(self._state_id, group)
        bag = scope.bag(_VALUES, window.section)
        stays = window.fires < window.times.expiry
        in_memory, decode_key = self._values.in_memory, self._decode_key
        pairs: list[Any] = []
        size = 0
        with closed_after(self._merged(bag.read())) as merged:
            for key, chunks in merged:
                if stays:
                    self._count_pane(scope, window, key, 1)
                chunk_bytes = _size_in_memory(chunks)
                if chunk_bytes is None:
                    pairs.append((decode_key(key), self._values.of(_loaded(chunks))))
                    size += _PAIR_BYTES
                else:
                    pairs.append((decode_key(key), in_memory(chunks)))
                    size += _PAIR_BYTES + chunk_bytes
                if size >= _BATCH_BYTES:
                    yield pairs, size
                    pairs = []
                    size = 0
        if pairs:
            yield pairs, size
        bag.clear()
        if not stays:
            self._forget(scope, window.section)

    def _merged(self, payloads: Iterable[bytes]) -> Generator[tuple[bytes, list[Any]]]:
        """Keys and their chunks, which can be loaded until the next key is asked for."""
        merger = GroupMerger(self._memory_bytes, self._scratch)
        try:
            for payload in payloads:
                merger.add(payload)
            for _, key, chunks in merger.groups():
                yield key, chunks
        finally:
            merger.close()

    def _closes(self, window: EndingWindow) -> bool:
        """Whether the pane on time is the last."""
        return not self._fires_late or window.fires >= window.times.expiry

    def _count_pane(self, scope: KeyScope, window: EndingWindow, key: bytes, panes: int) -> None:
        state = _PANES.pack(panes) if self._fires_late else _CLOSED
        scope.map(_PANES_TAG, window.section).put(key, state)
        timers = scope.timers(Domain.EXPIRY)
        if panes == 1 and timers.time_of(_TIMER, b"", window.section) is None:
            timers.set(window.times.expiry, _TIMER, b"", window.section)

    def _expire(self, group: bytes, window: EndingWindow) -> Iterator[PaneBatch]:
        scope = self._overlay.scope(self._state_id, group)
        panes = scope.map(_PANES_TAG, window.section)
        if self._closes_always and self._fires_late:
            for key, number in panes.items():
                context = window.context(_number(number), on_time=False, last=True)
                yield context, [(self._decode_key(key), [])]
        panes.clear()
        self._forget(scope, window.section)

    def _forget(self, scope: KeyScope, section: bytes) -> None:
        """Nothing is left of a window in a key group."""
        if scope.stored:
            return
        domains = (Domain.EVENT, Domain.EXPIRY) if self._lateness else (Domain.EVENT,)
        if all(scope.timers(domain).next_time() is None for domain in domains):
            scope.forget()
        else:
            scope.forget_window(section)


def _together(ended: Iterable[EndedPairs]) -> Iterator[PaneBatch]:
    """Batches of some megabytes, of pairs that come with the same object.

    A stage pays for each batch. A key group gives the panes of all its windows, one window after
    the other: without this, each batch would have the few keys of one group in one window. The
    windows of a key stay in the order of their ends.
    """
    # By identity, which is cheap. The table keeps the object, so no other one has its number.
    by_context: dict[int, PaneBatch] = {}
    total = 0
    for context, pairs, size in ended:
        _, gathered = by_context.setdefault(id(context), (context, []))
        gathered += pairs
        total += size
        if total >= _BATCH_BYTES:
            yield from _earliest_first(by_context)
            by_context, total = {}, 0
    yield from _earliest_first(by_context)


def _earliest_first(by_context: dict[int, PaneBatch]) -> list[PaneBatch]:
    return sorted(by_context.values(), key=lambda batch: batch[0].timestamp)


def _loaded(chunks: list[Any]) -> Iterator[bytes]:
    """Chunks one by one, those on disk when it is their turn."""
    return (chunk if type(chunk) is bytes else chunk.load() for chunk in chunks)


def _size_in_memory(chunks: list[Any]) -> int | None:
    """The bytes in chunks, None if some are on disk."""
    size = 0
    for chunk in chunks:
        if type(chunk) is not bytes:
            return None
        size += len(chunk)
    return size


def _number(panes: bytes | None) -> int:
    return _PANES.unpack(panes)[0] if panes else 0
