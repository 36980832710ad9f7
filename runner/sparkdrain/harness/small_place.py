"""State and timers of keys that are small: cells and timers that move from record to record.

A DoFn has one cell for each state, made once. A key's turn points the cells at its record. Many
items, or many timers that follow processing time or have dynamic tags, are more than a record can
hold. Such a key continues in a scope after the turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from typing_extensions import override

from sparkdrain.harness.key_place import KeyPlace
from sparkdrain.harness.timers import pane_of
from timers_state.keys import EVENT, HOLD, PROCESSING
from timers_state.small.kinds import SMALL_CELLS
from timers_state.small.record import MOST_OTHER_TIMERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.harness.drain_timers import TimerBound
    from sparkdrain.harness.key_place import DofnState, DueTimer
    from timers_state import Domain, KeyScope
    from timers_state.keys import TimerName
    from timers_state.small.record import Content, Record
    from timers_state.small.records import Records


class KeyChanges(NamedTuple):
    """What a turn has changed of a small key.

    Attributes:
        contents: by encoded window.
        is_outgrown: whether the key will have no records after that.
        beyond: what is to be done in a scope then.
    """

    contents: list[tuple[bytes, Content]]
    is_outgrown: bool
    beyond: tuple[Callable[[KeyScope], None], ...]


class SmallPlace(KeyPlace):
    """Where a small key has its turn, in one window at a time.

    Order of calls: ``begin``; ``enter``, calls of user code; ``end``.

    Args:
        records: in which keys have their turns; None: those that are state.
    """

    is_large = False

    def __init__(
        self, context: DofnState, bound: TimerBound, records: Records | None = None
    ) -> None:
        self._context = context
        self.encode_window = context.encode_window
        self._decode_window = context.decode_window
        self._last_window: Any = None
        self._last_section = b""
        self.key: Any = None
        self._encoded = b""
        self._head: Record | None = None
        self.is_outgrown = False
        self._beyond: list[Callable[[KeyScope], None]] = []
        """What is to be done, after this turn, in a scope."""
        self.records: Records = records or context.overlay.records(context.state_id, context.layout)
        self.record: Record = None  # type: ignore[assignment]
        self.window: Any = None
        self.expiry_of = context.expiry_of
        self.expires = context.expiry_of is not None
        self.bound = bound
        self._families = context.layout.families
        self.timers = {}
        self.cells = {
            spec.name: context.make_cell(spec, self, number)
            for number, spec in enumerate(context.states)
        }
        self._parts = tuple(cell.part for cell in self.cells.values())

    # --- turns --------------------------------------------------------------------------------

    def begin(self, encoded: bytes) -> bool:
        """What follows belongs to this key; False if it has no records, and cannot have any."""
        records = self.records
        head = self._head = records.begin(encoded)
        if head is None:
            if not records.takes(encoded):
                return False
            self._head = records.heads.get(encoded)
        self._encoded = encoded
        self._context.place = self
        self.window = None
        self.bound.is_on = False
        return True

    def enter(self, window: Any, key: Any) -> None:
        """Calls that follow are for this window."""
        self.key = key
        if window is self._last_window:
            section = self._last_section
        else:
            section = self._last_section = self.encode_window(window)
            self._last_window = window
        record = self._head
        while record is not None and record.window != section:
            record = record.more
        if record is None:
            record = self.records.add(self._encoded, section)
            if self._head is None:
                self._head = record
        self.point(record, window)

    def point(self, record: Record, window: Any) -> None:
        """Calls that follow are for this record, which is of ``window``."""
        if self.window is not None:
            if record is self.record:  # cells go on with what they have
                self.window = window
                return
            self._leave()
        self.record = record
        self.window = window
        for part in self._parts:
            part.renew()

    def end(self) -> None:
        """The turn is over: what has changed goes to the records."""
        if self.window is not None:
            self._leave()
            if self.is_outgrown:
                self.go_beyond(self._encoded)

    def take_changes(self) -> KeyChanges:
        """The turn is over, of a place that has copies: what it has changed."""
        if self.window is not None:
            self._leave()
            self.window = None
        changes = KeyChanges(self.records.take_changes(), self.is_outgrown, tuple(self._beyond))
        self._beyond.clear()
        self.is_outgrown = False
        return changes

    def pop_due(self, event: int, processing: int | None) -> DueTimer | None:
        """As ``LargePlace.pop_due``; its window has the turn from now on."""
        which: int | TimerName
        head = self._head
        if head is None:
            return None
        record, which = head, 0
        if head.more is None and len(head.times) == 1 and not head.others:  # as most keys
            time = head.times[0]
            if time is None or time > event:
                return None
        else:
            due = self._first_of(EVENT, event)
            if due is None and processing is not None:
                due = self._first_of(PROCESSING, processing)
            if due is None:
                return None
            record, which = due
        window = self._decode_window(record.window)
        if record is not self.record or self.window is None:
            self.point(record, window)
        records = self.records
        if isinstance(which, int):
            domain, family, tag = EVENT, records.layout.families[which], b""
            time, payload = records.take_timer(record, which)
        else:
            domain, family, tag = which
            time, payload = records.take_other(record, which)
            if domain is PROCESSING:
                records.clear_other(record, (HOLD, family, tag))
        return record, time, window, family, tag, pane_of(self.bound, domain, time, payload)

    def expire(self, up_to: int) -> None:
        """As ``LargePlace.expire``."""
        records, record = self.records, self._head
        while record is not None:
            if record.expiry is not None and record.expiry <= up_to:
                if record.has_timers():
                    records.expire_at(record, None)
                else:
                    records.forget(record)
            record = record.more

    def expire_window(self, record: Record) -> None:
        """As ``LargePlace.expire_window``."""
        # The key may be large by now. Once its time is over, a window lasts as long as its timers.
        context = self._context
        is_small = context.overlay.is_small(context.state_id, record.key)
        if is_small and record.expiry is None and not record.has_timers():
            self.records.forget(record)

    def _first_of(self, domain: Domain, up_to: int) -> tuple[Record, int | TimerName] | None:
        families = self.records.layout.families
        first: tuple[int, bytes, bytes, bytes] | None = None
        found: tuple[Record, int | TimerName] | None = None
        record = self._head
        while record is not None:
            if domain is EVENT:
                for number, time in enumerate(record.times):
                    if time is not None and time <= up_to:
                        order = time, record.window, families[number], b""
                        if first is None or order < first:
                            first, found = order, (record, number)
            for name, (time, _) in record.others.items():
                if name[0] is domain and time <= up_to:
                    order = time, record.window, *name[1:]
                    if first is None or order < first:
                        first, found = order, (record, name)
            record = record.more
        return found

    def _leave(self) -> None:
        for part in self._parts:
            if part.is_changed:
                part.store()
        # A record that is left with nothing does not expire; its scope, which has more, must.
        if not self.is_outgrown:
            self.records.end(self.record)

    def rest(self, record: Any) -> None:
        """No key has its turn; cells and timers are given the record of no key."""
        self.record = record
        for part in self._parts:
            part.renew()

    def go_beyond(self, encoded: bytes) -> None:
        """Has a scope take a key over, whose turn is over."""
        context = self._context
        scope = context.overlay.scope(context.state_id, encoded)
        for act in self._beyond:
            act(scope)
        self._beyond.clear()
        self.is_outgrown = False

    # --- what cells and timers ask --------------------------------------------------------------

    @override
    def items(self, number: int) -> Any:
        small = SMALL_CELLS.get(self.records.layout.values[number][0])
        return None if small is None else small(self, number)

    @override
    def open(self, number: int) -> Any:
        message = f"state {number} of a small key has no cell in a scope"
        raise NotImplementedError(message)

    @override
    def keep(self) -> None:
        expiry_of, record = self.expiry_of, self.record
        if expiry_of is not None and record.expiry is None:
            self.records.expire_at(record, expiry_of(self.window))

    @override
    def set_timer(self, name: TimerName, time: int, payload: bytes) -> None:
        self.keep()
        if self.is_outgrown:
            domain, family, tag = name
            window = self.record.window
            self._beyond.append(
                lambda scope: scope.timers(domain).set(time, family, tag, window, payload)
            )
            return
        self.records.set_other(self.record, name, time, payload)
        if len(self.record.others) > MOST_OTHER_TIMERS:
            self.outgrow()

    @override
    def clear_timer(self, name: TimerName) -> None:
        self.records.clear_other(self.record, name)
        if self.is_outgrown:
            domain, family, tag = name
            window = self.record.window
            self._beyond.append(lambda scope: scope.timers(domain).clear(family, tag, window))

    def outgrow(self) -> None:
        """Have the key be in a scope after this turn."""
        self.is_outgrown = True

    @override
    def number(self, family: bytes) -> int:
        return self._families.index(family)

    @override
    def has_one_timer(self) -> bool:
        return len(self._families) == 1
