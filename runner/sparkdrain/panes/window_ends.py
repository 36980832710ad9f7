"""Grouping where the end of the window is all that a pane waits for."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from apache_beam.transforms.trigger import AccumulationMode, DefaultTrigger
from apache_beam.transforms.trigger import _Never as Never
from apache_beam.transforms.window import WindowedValue
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming

from sparkdrain.panes.behaviors import Closing
from sparkdrain.panes.pane_values import PaneValues
from sparkdrain.panes.round_blocks import loaded, values_in
from sparkdrain.panes.times import END, WindowTimes, whole_millis
from sparkdrain.shuffle.group_by_key import in_millis
from sparkdrain.shuffle.keys import key_codec
from timers_state import Domain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sparkdrain.panes.budget import Budget
    from sparkdrain.panes.grouping import Batch
    from sparkdrain.panes.round_blocks import RoundBlocks
    from sparkdrain.shuffle.coding import ElementCoding
    from timers_state import KeyScope, Overlay, Timer

_BATCH = 1024
_PANES = struct.Struct(">I")
_VALUES, _PANES_TAG = b"v", b"p"
_END_OF_WINDOW, _EXPIRY = b"e", b"x"
_DONE = b""


class Window:
    """A window that is being worked on, and when it is over."""

    __slots__ = ("_panes", "fires", "section", "times", "window")

    def __init__(self, section: bytes, window: Any, lateness: int, at_expiry: bool) -> None:
        self.section = section
        self.window = window
        self.times = WindowTimes.of(window, lateness)
        self.fires = self.times.expiry if at_expiry else self.times.end
        self._panes: dict[tuple[int, bool, bool], Any] = {}

    def context(self, index: int, *, on_time: bool, last: bool) -> Any:
        """What goes with a pane: the same object for the same pane of every key."""
        pane = index, on_time, last
        context = self._panes.get(pane)
        if context is None:
            timing = PaneInfoTiming.ON_TIME if on_time else PaneInfoTiming.LATE
            info = PaneInfo(index == 0, last, timing, index, index)
            end = in_millis(self.window.max_timestamp())
            context = self._panes[pane] = WindowedValue(None, end, (self.window,), info)
        return context


class WindowEndGrouping:
    """One pane per key and window at the window's end; more only if late elements are allowed.

    Per key and window there is a bag of chunks as they came, and a timer at the end of the window.
    If elements may be late there is also, once the pane on time was handed out, the number of
    panes so far (or that no more are wanted), until the window expires.
    """

    def __init__(
        self,
        windowing: Any,
        key_coder: Any,
        coding: ElementCoding,
        overlay: Overlay,
        state_id: int,
        blocks: RoundBlocks,
        scratch: Callable[[], Path],
        closing: Closing,
    ) -> None:
        _, self._decode_key = key_codec(key_coder)
        self._decode_window = coding.window.get_impl().decode
        self._values = PaneValues(coding.coder, scratch)
        self._overlay = overlay
        self._state_id = state_id
        self._blocks = blocks
        self._lateness = windowing.allowed_lateness.micros
        # Never only closes windows; a window without late firings is closed by its first pane.
        self._at_expiry = type(windowing.triggerfn) is Never
        self._fires_late = type(windowing.triggerfn) is DefaultTrigger
        self._accumulates = windowing.accumulation_mode == AccumulationMode.ACCUMULATING
        self._closes_always = closing is Closing.ALWAYS
        self._window: Window | None = None
        self._dropped = 0
        self.dropped = 0

    def take(self, payload: memoryview) -> None:
        """See ``Grouping``."""
        self._blocks.add(payload)

    def process(self, frontier: int, now: int) -> Iterator[Batch]:
        """See ``Grouping``."""
        del now
        pairs: list[Any] = []
        context: Any = None
        for section, key, chunks in self._blocks.groups():
            window = self._enter(section)
            if frontier < window.fires:
                self._wait(key, window, chunks)
                continue
            fired = self._late(key, window, chunks, frontier)
            if fired is None:
                continue
            if pairs and (fired[0] is not context or len(pairs) >= _BATCH):
                yield context, pairs
                pairs = []
            context = fired[0]
            pairs.append(fired[1])
        if pairs:
            yield context, pairs

    def advance(self, frontier: int, now: int, budget: Budget) -> Iterator[Batch]:
        """See ``Grouping``."""
        del now
        pairs: list[Any] = []
        context: Any = None
        for key, timer in self._due(Domain.EVENT, frontier, budget):
            window = self._enter(timer.window)
            found = window.context(0, on_time=True, last=self._is_last(window))
            if pairs and (found is not context or len(pairs) >= _BATCH):
                yield context, pairs
                pairs = []
            context = found
            pairs.append(self._end(key, window))
        if pairs:
            yield context, pairs
        for key, timer in self._due(Domain.EXPIRY, frontier, budget):
            yield from self._expire(key, self._enter(timer.window))

    def hold(self) -> int:
        """See ``Grouping``."""
        first = self._overlay.first_time(self._state_id, Domain.EVENT)
        return END if first is None else whole_millis(first - 1)

    def next_wake(self) -> int | None:
        """See ``Grouping``: processing time does not count here."""
        return None

    def has_due(self, frontier: int, now: int) -> bool:
        """See ``Grouping``."""
        del now
        return any(
            first is not None and first <= frontier
            for first in (
                self._overlay.first_time(self._state_id, Domain.EVENT),
                self._overlay.first_time(self._state_id, Domain.EXPIRY),
            )
        )

    @property
    def spilled_bytes(self) -> int:
        """See ``Grouping``."""
        return self._blocks.spilled_bytes

    def commit(self) -> None:
        """See ``Grouping``."""
        self._dropped = self.dropped

    def rollback(self) -> None:
        """See ``Grouping``."""
        self.dropped = self._dropped
        self._blocks.clear()

    def _enter(self, section: bytes) -> Window:
        window = self._window
        if window is None or section != window.section:
            decoded = self._decode_window(section)
            window = self._window = Window(section, decoded, self._lateness, self._at_expiry)
        return window

    def _due(self, domain: Domain, frontier: int, budget: Budget) -> Iterator[tuple[bytes, Timer]]:
        overlay, state_id = self._overlay, self._state_id
        while (key := overlay.next_due(state_id, domain, frontier)) is not None:
            if not budget.spend():
                return
            timer = overlay.scope(state_id, key).timers(domain).pop_due(frontier)
            if timer is not None:
                yield key, timer

    def _wait(self, key: bytes, window: Window, chunks: list[Any]) -> None:
        scope = self._overlay.scope(self._state_id, key)
        bag = scope.bag(_VALUES, window.section)
        for chunk in loaded(chunks):
            bag.append(chunk)
        scope.timers(Domain.EVENT).set(window.fires, _END_OF_WINDOW, b"", window.section)

    def _late(
        self, key: bytes, window: Window, chunks: list[Any], frontier: int
    ) -> tuple[Any, tuple[Any, Any]] | None:
        """Chunks that came after the end of their window: a pane with its context, if any."""
        if frontier >= window.times.expiry:
            self.dropped += _count(chunks)
            return None
        scope = self._overlay.scope(self._state_id, key)
        section = window.section
        if scope.timers(Domain.EVENT).time_of(_END_OF_WINDOW, b"", section) is not None:
            # It is due, but there was no time for it: these still belong to it.
            self._wait(key, window, chunks)
            return None
        fired = scope.value(_PANES_TAG, section).get()
        if fired == _DONE:
            self.dropped += _count(chunks)
            return None
        index = _panes(fired)
        context = window.context(index, on_time=False, last=not self._fires_late)
        if self._accumulates and self._fires_late:
            bag = scope.bag(_VALUES, section)
            for chunk in loaded(chunks):
                bag.append(chunk)
            values = self._values.of(bag.read())
        else:
            values = self._values.of(loaded(chunks))
        self._count_pane(scope, window, index + 1)
        return context, (self._decode_key(key), values)

    def _end(self, key: bytes, window: Window) -> tuple[Any, Any]:
        """The pane of a window whose time has come."""
        scope = self._overlay.scope(self._state_id, key)
        bag = scope.bag(_VALUES, window.section)
        values = self._values.of(bag.read())
        if window.fires < window.times.expiry:
            if not (self._accumulates and self._fires_late):
                bag.clear()
            self._count_pane(scope, window, 1)
        elif scope.stored:
            bag.clear()
        else:
            self._forget(scope, window.section)
        return self._decode_key(key), values

    def _is_last(self, window: Window) -> bool:
        return not self._fires_late or window.fires >= window.times.expiry

    def _count_pane(self, scope: KeyScope, window: Window, panes: int) -> None:
        value = _PANES.pack(panes) if self._fires_late else _DONE
        scope.value(_PANES_TAG, window.section).set(value)
        if panes == 1:
            scope.timers(Domain.EXPIRY).set(window.times.expiry, _EXPIRY, b"", window.section)

    def _expire(self, key: bytes, window: Window) -> Iterator[Batch]:
        scope = self._overlay.scope(self._state_id, key)
        fired, bag = scope.value(_PANES_TAG, window.section), scope.bag(_VALUES, window.section)
        if self._closes_always and self._fires_late:
            context = window.context(_panes(fired.get()), on_time=False, last=True)
            yield context, [(self._decode_key(key), self._values.of(bag.read()))]
        if scope.stored:
            fired.clear()
            bag.clear()
        else:
            self._forget(scope, window.section)

    def _forget(self, scope: KeyScope, section: bytes) -> None:
        """Nothing is left of a key's window, and nothing of it was ever written."""
        domains = (Domain.EVENT, Domain.EXPIRY) if self._lateness else (Domain.EVENT,)
        if all(scope.timers(domain).next_time() is None for domain in domains):
            scope.forget()
        else:
            scope.forget_window(section)


def _panes(fired: bytes | None) -> int:
    panes: int = _PANES.unpack(fired)[0] if fired else 0
    return panes


def _count(chunks: list[Any]) -> int:
    return sum(map(values_in, chunks))
