"""State and timers of the key that a stage is working on.

A bounded stage sees its keys one after the other, so the state of one key at a time is alive.
It is kept as Python objects, and what grows beyond the budget goes to the store. When the last
timer of a key has fired, its state is forgotten.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from typing import Any

from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp

from sparkdrain.errors import Unsupported
from sparkdrain.harness.cells import CELLS


class KeyedStateContext(userstate.UserStateContext):  # type: ignore[misc]
    """What one stateful DoFn sees of the state and timers of the present key."""

    def __init__(self, transform_id: str, window_coder: Any, key_state: Any) -> None:
        self.transform_id = transform_id
        self._window_impl = window_coder.get_impl()
        self._key_state = key_state
        self._cells: dict[tuple[Any, Any], Any] = {}
        self.timers = TimerTable()

    def get_state(self, state_spec: Any, key: Any, window: Any) -> Any:
        """The cell of ``state_spec`` in ``window``, made at first use."""
        address = (state_spec, window)
        cell = self._cells.get(address)
        if cell is None:
            cell = self._cells[address] = self._create(state_spec, window)
        return cell

    def _create(self, state_spec: Any, window: Any) -> Any:
        for kind in type(state_spec).__mro__:
            if kind in CELLS:
                break
        else:
            msg = f"{self.transform_id!r}: state {state_spec.name!r} is of a kind not known here"
            raise Unsupported(msg)
        return CELLS[kind](
            state_spec,
            lambda: self._key_state.scope(self.transform_id, self._window_impl.encode(window)),
        )

    def get_timer(
        self, timer_spec: Any, key: Any, window: Any, timestamp: Any, pane: Any
    ) -> KeyTimer:
        """A handle to set and clear timers of a family, for ``window``."""
        return KeyTimer(self.timers, timer_spec, key, window, timestamp, pane)

    def forget_key(self) -> None:
        """All state of the present key goes; must be called between keys."""
        for cell in self._cells.values():
            cell.close()
        self._cells.clear()

    def commit(self) -> None:
        """Nothing outlives a bounded bundle."""

    def reset(self) -> None:
        """Forget everything."""
        self.forget_key()


class KeyTimer(userstate.BaseTimer):  # type: ignore[misc]
    """Sets and clears timers of one family, key and window."""

    __slots__ = ("_key", "_pane", "_spec", "_table", "_timestamp", "_window")

    def __init__(
        self, table: TimerTable, spec: Any, key: Any, window: Any, timestamp: Any, pane: Any
    ) -> None:
        self._table = table
        self._spec = spec
        self._key = key
        self._window = window
        self._timestamp = timestamp
        self._pane = pane

    def set(self, timestamp: Any, dynamic_timer_tag: str = "") -> None:
        """Fire at ``timestamp``; replaces an earlier setting of the same tag."""
        fire = Timestamp.of(timestamp)
        event_time = TimeDomain.is_event_time(self._spec.time_domain)
        timer = userstate.Timer(
            user_key=self._key,
            dynamic_timer_tag=dynamic_timer_tag,
            windows=(self._window,),
            clear_bit=False,
            fire_timestamp=fire,
            hold_timestamp=fire if event_time else self._timestamp,
            paneinfo=self._pane,
        )
        self._table.set(self._spec.name, event_time, timer)

    def clear(self, dynamic_timer_tag: str = "") -> None:
        """Take back the setting of this tag, if there is one."""
        self._table.clear(self._spec.name, dynamic_timer_tag, self._window)


class TimerTable:
    """The timers of one key, and the order in which they fire once its input has ended.

    Event time goes to its end first: in time order, ties in order of setting. Then pending
    processing-time timers fire, in time order as well. Timers set meanwhile join the queue, so
    event-time timers set by a processing-time callback fire next.
    """

    def __init__(self) -> None:
        self._timers: dict[tuple[str, str, Any], tuple[int, Any]] = {}
        self._queue: list[tuple[bool, int, int, tuple[str, str, Any]]] = []
        self._numbers = itertools.count()

    def set(self, family: str, event_time: bool, timer: Any) -> None:  # noqa: FBT001
        address = (family, timer.dynamic_timer_tag, timer.windows[0])
        number = next(self._numbers)
        self._timers[address] = (number, timer)
        heapq.heappush(self._queue, (not event_time, timer.fire_timestamp.micros, number, address))

    def clear(self, family: str, tag: str, window: Any) -> None:
        self._timers.pop((family, tag, window), None)

    def due(self) -> Iterator[tuple[str, Any]]:
        """Family and timer, one at a time, until none is left; timers may be set meanwhile."""
        while self._queue:
            _, micros, number, address = heapq.heappop(self._queue)
            current = self._timers.get(address)
            if current is None or current[0] != number:
                continue
            del self._timers[address]
            if micros <= MAX_TIMESTAMP.micros:
                yield address[0], current[1]
