"""The windows of one key: opened, merged, written down again with their timers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from apache_beam.transforms.window import WindowFn

from sparkdrain.panes.times import whole_millis
from sparkdrain.panes.window_state import SeparateStates, StatesTogether, WindowState
from timers_state import Domain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkdrain.panes.rules import Rules
    from sparkdrain.panes.times import WindowTimes
    from timers_state import KeyScope

_VALUES, _TIMER = b"v", b"t"


@dataclass(slots=True, eq=False)
class OpenWindow:
    """A window of a key, with its state decoded."""

    encoded: bytes
    window: Any
    times: WindowTimes
    state: WindowState
    is_new: bool
    gone: bool = False


class KeyWindows:
    """The windows of a key, by their encoding. ``save`` writes back what was opened."""

    def __init__(self, rules: Rules, scope: KeyScope) -> None:
        self._rules = rules
        self._scope = scope
        self._table = StatesTogether(scope) if rules.merges else SeparateStates(scope)
        self._open: dict[bytes, OpenWindow] = {}

    def find(self, encoded: bytes) -> OpenWindow:
        """The window, new if it has no state."""
        found = self._open.get(encoded)
        return found if found is not None else self._add(encoded, self._table.get(encoded))

    def of_timer(self, encoded: bytes) -> OpenWindow | None:
        """The window that a timer is for."""
        data = self._table.get(encoded)
        return None if data is None else self._add(encoded, data)

    def merge(self, windows: list[bytes]) -> dict[bytes, bytes]:
        """Merge windows with those that there are; returns what each went into, if into another."""
        assert isinstance(self._table, StatesTogether), "windows merge"
        known = set(self._table.windows())
        known.update(found.encoded for found in self._open.values() if not found.gone)
        if known.issuperset(windows):
            return {}
        for encoded in known:
            self.find(encoded)
        merging = _Merging(self, [self._rules.window(encoded) for encoded in known.union(windows)])
        self._rules.merge(merging)
        into = merging.into
        return {encoded: _last(into, encoded) for encoded in into}

    def unite(self, windows: list[bytes], result: bytes) -> None:
        """Make one window of some, which has all that they have."""
        target = self._open.get(result)
        if target is not None and target.gone:
            target = None
        others = [self._open[window] for window in windows if window in self._open]
        parts = [other for other in others if not other.gone and other is not target]
        if not parts:
            return
        if target is None:
            target = self._add(result, None)
        else:
            parts.insert(0, target)
        state, states = target.state, [part.state for part in parts]
        self._rules.trigger.merge(state.numbers, [list(part.numbers) for part in states])
        state.bags = [number for part in states for number in part.bags]
        state.finished = any(part.finished for part in states)
        state.fresh = any(part.fresh for part in states)
        state.hold = self._rules.output_time.combined(part.hold for part in states)
        if state.finished:
            self.clear(target)
        for part in parts:
            if part is not target:
                part.gone = True
                part.state.bags = []

    def append(self, found: OpenWindow, chunk: bytes) -> None:
        """Add values to a window."""
        state = found.state
        if not self._rules.merges:
            self._scope.bag(_VALUES, found.encoded).append(chunk)
            return
        if not state.bags:
            # All windows are open, since this one is new to the key.
            used = (number for other in self._open.values() for number in other.state.bags)
            state.bags.append(max(used, default=-1) + 1)
        self._scope.bag(_VALUES, state.bags[0].to_bytes(4, "big")).append(chunk)

    def chunks(self, found: OpenWindow) -> Iterator[bytes]:
        """All values of a window."""
        bags = [self._scope.bag(_VALUES, name) for name in self._bag_names(found)]
        return bags[0].read() if len(bags) == 1 else chain.from_iterable(bag.read() for bag in bags)

    def clear(self, found: OpenWindow) -> None:
        """Remove the values of a window."""
        for name in self._bag_names(found):
            self._scope.bag(_VALUES, name).clear()
        del found.state.bags[1:]

    def save(self, now: int) -> None:
        """Write down what was opened, and set its timers."""
        some_gone = False
        for found in self._open.values():
            if not found.gone:
                self._keep(found, now)
            elif not found.is_new:
                self._remove(found)
                some_gone = True
        self._table.flush()
        scope = self._scope
        # Every window that is kept has a timer.
        if some_gone and not scope.stored and scope.timers(Domain.EVENT).next_time() is None:
            scope.forget()

    def _add(self, encoded: bytes, data: bytes | None) -> OpenWindow:
        state = WindowState.decode(data) if data else WindowState([0] * self._rules.numbers)
        window, times = self._rules.window(encoded), self._rules.times(encoded)
        found = OpenWindow(encoded, window, times, state, data is None)
        self._open[encoded] = found
        return found

    def _bag_names(self, found: OpenWindow) -> list[bytes]:
        """Where the values of a window are: if none merge, under its own name."""
        if not self._rules.merges:
            return [found.encoded]
        return [number.to_bytes(4, "big") for number in found.state.bags]

    def _remove(self, found: OpenWindow) -> None:
        self.clear(found)
        self._table.remove(found.encoded)
        state = found.state
        for domain, time in (
            (Domain.EVENT, state.event),
            (Domain.PROCESSING, state.wake),
            (Domain.HOLD, state.held),
        ):
            if time is not None:
                self._scope.timers(domain).clear(_TIMER, b"", found.encoded)

    def _keep(self, found: OpenWindow, now: int) -> None:
        state, trigger = found.state, self._rules.trigger
        awaits_end = not state.finished and trigger.awaits_end(state.numbers)
        event = found.times.end if awaits_end else found.times.expiry
        wake = None if state.finished else trigger.wake(state.numbers, now)
        hold = state.hold
        # A timer in event time holds back whatever is not before it anyway.
        held = whole_millis(hold) if hold is not None and hold < event - 1 else None
        if event != state.event:
            self._set(Domain.EVENT, found.encoded, event)
            state.event = event
        if wake != state.wake:
            self._set(Domain.PROCESSING, found.encoded, wake)
            state.wake = wake
        if held != state.held:
            self._set(Domain.HOLD, found.encoded, held)
            state.held = held
        self._table.put(found.encoded, state.encode())

    def _set(self, domain: Domain, encoded: bytes, time: int | None) -> None:
        timers = self._scope.timers(domain)
        if time is None:
            timers.clear(_TIMER, b"", encoded)
        else:
            timers.set(time, _TIMER, b"", encoded)


class _Merging(WindowFn.MergeContext):
    """What a window function says about which windows become which."""

    def __init__(self, windows: KeyWindows, all_windows: list[Any]) -> None:
        super().__init__(all_windows)
        self._windows = windows
        self._encode = windows._rules.encode_window  # noqa: SLF001 - a part of it
        self.into: dict[bytes, bytes] = {}

    def merge(self, to_be_merged: Any, merge_result: Any) -> None:
        """Called by Beam."""
        result = self._encode(merge_result)
        windows = [self._encode(window) for window in to_be_merged]
        self.into.update({window: result for window in windows if window != result})
        self._windows.unite(windows, result)


def _last(into: dict[bytes, bytes], window: bytes) -> bytes:
    while window in into:
        window = into[window]
    return window
