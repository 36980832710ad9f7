"""Timers of the key being processed, and the order in which they fire once its input has ended."""

from __future__ import annotations

import heapq
import itertools
import struct
from typing import TYPE_CHECKING, Any

from apache_beam.coders.coder_impl import PaneInfoCoderImpl
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp

from timers_state import Domain, KeyScope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# More timers of one key than this go to the store.
_IN_MEMORY = 10_000
_HOLD = struct.Struct(">q")
_PANES = PaneInfoCoderImpl()

Address = tuple[str, str, Any]
"""Family, dynamic tag, window."""


class KeyTimer(userstate.BaseTimer):
    """Sets and clears timers of one family, key and window."""

    __slots__ = ("_event_time", "_family", "_key", "_pane", "_table", "_timestamp", "_window")

    def __init__(
        self, table: TimerTable, spec: Any, key: Any, window: Any, timestamp: Any, pane: Any
    ) -> None:
        self._table = table
        self._family = spec.name
        self._event_time = TimeDomain.is_event_time(spec.time_domain)
        self._key = key
        self._window = window
        self._timestamp = timestamp
        self._pane = pane

    def set(self, timestamp: Any, dynamic_timer_tag: str = "") -> None:
        """Fire at ``timestamp``; replaces an earlier setting of the same tag."""
        fire = Timestamp.of(timestamp)
        timer = userstate.Timer(
            user_key=self._key,
            dynamic_timer_tag=dynamic_timer_tag,
            windows=(self._window,),
            clear_bit=False,
            fire_timestamp=fire,
            hold_timestamp=fire if self._event_time else self._timestamp,
            paneinfo=self._pane,
        )
        self._table.set(self._family, timer, event_time=self._event_time)

    def clear(self, dynamic_timer_tag: str = "") -> None:
        """Take back the setting of this tag, if there is one."""
        self._table.clear(self._family, dynamic_timer_tag, self._window)


class TimerTable:
    """The timers of one key.

    Event time goes to its end first: in time order. Then pending processing-time timers fire, in
    time order as well. Timers set meanwhile take part, so event-time timers set by a
    processing-time callback fire next.

    Args:
        scope: gives the key's scope in the store, where a large number of timers goes.
        window_impl: coder of windows.
    """

    def __init__(self, scope: Callable[[], KeyScope], window_impl: Any) -> None:
        self._scope = scope
        self._window_impl = window_impl
        self._timers: dict[Address, tuple[int, Any]] = {}
        self._queue: list[tuple[bool, int, int, Address]] = []
        self._numbers = itertools.count()
        self._stored = False

    def set(self, family: str, timer: Any, *, event_time: bool) -> None:
        """Set a timer; the one with the same family, tag and window is replaced."""
        if self._stored:
            self._store(family, timer, event_time=event_time)
            return
        address = (family, timer.dynamic_timer_tag, timer.windows[0])
        number = next(self._numbers)
        self._timers[address] = (number, timer)
        entry = (not event_time, timer.fire_timestamp.micros, number, address)
        heapq.heappush(self._queue, entry)
        if len(self._queue) > _IN_MEMORY:
            self._save()

    def clear(self, family: str, tag: str, window: Any) -> None:
        """Make sure that a timer does not fire."""
        if self._stored:
            encoded = self._window_impl.encode(window)
            for domain in (Domain.EVENT, Domain.PROCESSING):
                self._scope().timers(domain).clear(family.encode(), tag.encode(), encoded)
        else:
            self._timers.pop((family, tag, window), None)

    def due(self, key: Any) -> Iterator[tuple[str, Any]]:
        """Family and timer, one at a time, until none is left; timers may be set meanwhile."""
        while self._queue:
            _, micros, number, address = heapq.heappop(self._queue)
            current = self._timers.get(address)
            if current is None or current[0] != number:
                continue
            del self._timers[address]
            if micros <= MAX_TIMESTAMP.micros:
                yield address[0], current[1]
        if self._stored:
            yield from self._stored_due(key)

    def forget(self) -> None:
        """The key's life ends."""
        if self._timers or self._queue or self._stored:
            self._timers = {}
            self._queue = []
            self._stored = False

    def _save(self) -> None:
        queue, self._queue = self._queue, []
        timers, self._timers = self._timers, {}
        self._stored = True
        for not_event_time, _, number, address in queue:
            current = timers.get(address)
            if current is not None and current[0] == number:
                self._store(address[0], current[1], event_time=not not_event_time)

    def _store(self, family: str, timer: Any, *, event_time: bool) -> None:
        domain = Domain.EVENT if event_time else Domain.PROCESSING
        payload = _HOLD.pack(timer.hold_timestamp.micros) + _PANES.encode(timer.paneinfo)
        self._scope().timers(domain).set(
            timer.fire_timestamp.micros,
            family.encode(),
            timer.dynamic_timer_tag.encode(),
            self._window_impl.encode(timer.windows[0]),
            payload,
        )

    def _stored_due(self, key: Any) -> Iterator[tuple[str, Any]]:
        last = MAX_TIMESTAMP.micros
        event, processing = (
            self._scope().timers(domain) for domain in (Domain.EVENT, Domain.PROCESSING)
        )
        while (found := event.pop_due(last) or processing.pop_due(last)) is not None:
            (hold,) = _HOLD.unpack_from(found.payload)
            yield (
                found.family.decode(),
                userstate.Timer(
                    user_key=key,
                    dynamic_timer_tag=found.tag.decode(),
                    windows=(self._window_impl.decode(found.window),),
                    clear_bit=False,
                    fire_timestamp=Timestamp(micros=found.time),
                    hold_timestamp=Timestamp(micros=hold),
                    paneinfo=_PANES.decode(found.payload[_HOLD.size :]),
                ),
            )
