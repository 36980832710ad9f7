"""The windows of one key that have state: opened, merged, written down again with their timers."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from apache_beam.transforms.window import WindowFn

from sparkdrain.panes.times import WindowTimes, whole_millis
from sparkdrain.panes.window_state import WindowState
from timers_state import Domain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkdrain.panes.rules import Rules
    from timers_state import KeyScope

_WINDOWS, _VALUES, _TIMER = b"w", b"v", b"t"


class OpenWindow:
    """A window of a key, with its state decoded."""

    __slots__ = ("encoded", "gone", "is_new", "state", "times", "window")

    def __init__(
        self, encoded: bytes, window: Any, times: WindowTimes, state: WindowState, *, is_new: bool
    ) -> None:
        self.encoded = encoded
        self.window = window
        self.times = times
        self.state = state
        self.is_new = is_new
        self.gone = False


class KeyWindows:
    """The windows of a key. ``save`` writes back what was opened."""

    def __init__(self, rules: Rules, scope: KeyScope) -> None:
        self._rules = rules
        self._scope = scope
        self._table = scope.map(_WINDOWS)
        self._open: dict[Any, OpenWindow] = {}
        self._all_open = False

    def find(self, window: Any) -> OpenWindow:
        """The window, new if it has no state."""
        found = self._open.get(window)
        if found is None:
            encoded = self._rules.encode_window(window)
            data = None if self._all_open else self._table.get(encoded)
            found = self._add(encoded, window, data)
        return found

    def of_timer(self, encoded: bytes) -> OpenWindow | None:
        """The window that a timer is for."""
        data = self._table.get(encoded)
        if data is None:
            return None
        return self._add(encoded, self._rules.decode_window(encoded), data)

    def merge(self, windows: list[Any]) -> dict[Any, Any]:
        """Merge new windows with those that there are; returns what each went into, if any."""
        if not self._all_open:
            for encoded, data in self._table.items():
                window = self._rules.decode_window(encoded)
                if window not in self._open:
                    self._add(encoded, window, data)
            self._all_open = True
        known = {found.window for found in self._open.values() if not found.gone}
        if known.issuperset(windows):
            return {}
        into: dict[Any, Any] = {}
        keys = self

        class Merging(WindowFn.MergeContext):
            def merge(self, to_be_merged: Any, merge_result: Any) -> None:
                for window in to_be_merged:
                    if window != merge_result:
                        into[window] = merge_result
                keys._unite(to_be_merged, merge_result)

        self._rules.merge(Merging(known.union(windows)))
        return {window: _last(into, window) for window in into}

    def append(self, found: OpenWindow, chunk: bytes) -> None:
        """Add values to a window."""
        state = found.state
        if self._rules.merges and not state.bags:
            # All windows are open, since this one is new to the key.
            used = (number for other in self._open.values() for number in other.state.bags)
            state.bags.append(max(used, default=-1) + 1)
        where = self._places(found)[0]
        self._scope.bag(_VALUES, where).append(chunk)

    def chunks(self, found: OpenWindow) -> Iterator[bytes]:
        """All values of a window."""
        bags = [self._scope.bag(_VALUES, place) for place in self._places(found)]
        return chain.from_iterable(bag.read() for bag in bags)

    def clear(self, found: OpenWindow) -> None:
        """Remove the values of a window."""
        for place in self._places(found):
            self._scope.bag(_VALUES, place).clear()
        del found.state.bags[1:]

    def save(self, now: int) -> None:
        """Write down what was opened, and set its timers."""
        for found in self._open.values():
            if found.gone:
                self._remove(found)
            else:
                self._keep(found, now)
        scope = self._scope
        if not scope.stored and next(self._table.keys(), None) is None:
            scope.forget()

    def _add(self, encoded: bytes, window: Any, data: bytes | None) -> OpenWindow:
        times = WindowTimes.of(window, self._rules.lateness)
        state = WindowState.decode(data) if data else WindowState([0] * self._rules.slots)
        found = OpenWindow(encoded, window, times, state, is_new=data is None)
        self._open[window] = found
        return found

    def _places(self, found: OpenWindow) -> list[bytes]:
        """Where the values of a window are: if none merge, under its own name."""
        if not self._rules.merges:
            return [found.encoded]
        return [number.to_bytes(4, "big") for number in found.state.bags]

    def _unite(self, windows: list[Any], result: Any) -> None:
        target = self._open.get(result)
        if target is not None and target.gone:
            target = None
        parts = [self._open[w] for w in windows if w in self._open and w != result]
        parts = [part for part in parts if not part.gone]
        if not parts:
            return
        if target is None:
            target = self._add(self._rules.encode_window(result), result, None)
        else:
            parts.insert(0, target)
        state, states = target.state, [part.state for part in parts]
        self._rules.trigger.merge(state.slots, [list(part.slots) for part in states])
        state.bags = [number for part in states for number in part.bags]
        state.finished = any(part.finished for part in states)
        state.fresh = any(part.fresh for part in states)
        state.hold = self._rules.output_time.combined(part.hold for part in states)
        if state.finished:
            self.clear(target)
        for part in parts:
            part.gone = part is not target
            if part.gone:
                part.state.bags = []

    def _remove(self, found: OpenWindow) -> None:
        self.clear(found)
        if found.is_new:
            return
        self._table.remove(found.encoded)
        for domain, time in _timers_of(found.state):
            if time is not None:
                self._scope.timers(domain).clear(_TIMER, b"", found.encoded)

    def _keep(self, found: OpenWindow, now: int) -> None:
        state, trigger = found.state, self._rules.trigger
        before = _timers_of(state)
        awaits_end = not state.finished and trigger.awaits_end(state.slots)
        state.event = found.times.end if awaits_end else found.times.expiry
        state.wake = None if state.finished else trigger.wake(state.slots, now)
        # A timer in event time holds back whatever is not before it anyway.
        hold = state.hold
        state.held = whole_millis(hold) if hold is not None and hold < state.event - 1 else None
        for (domain, time), (_, old) in zip(_timers_of(state), before, strict=True):
            if time == old:
                continue
            if time is None:
                self._scope.timers(domain).clear(_TIMER, b"", found.encoded)
            else:
                self._scope.timers(domain).set(time, _TIMER, b"", found.encoded)
        self._table.put(found.encoded, state.encode())


def _timers_of(state: WindowState) -> tuple[tuple[Domain, int | None], ...]:
    return (
        (Domain.EVENT, state.event),
        (Domain.PROCESSING, state.wake),
        (Domain.HOLD, state.held),
    )


def _last(into: dict[Any, Any], window: Any) -> Any:
    while window in into:
        window = into[window]
    return window
