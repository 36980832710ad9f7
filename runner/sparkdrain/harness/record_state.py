"""State and timers of keys that are kept as records: cells that move from key to key.

A DoFn whose state is values, accumulators and event timers has one cell for each of these, made
once. A key's turn points them at its record; a dynamic timer tag is more than a record can hold, so
such a key continues in a scope after the call, and all new keys of that DoFn begin there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apache_beam.transforms import userstate
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN

from sparkdrain.harness.cells import micros
from sparkdrain.harness.drain_timers import marked
from sparkdrain.harness.round_cells import (
    UNREAD,
    CombiningCell,
    CombiningKind,
    Kind,
    ValueCell,
)
from sparkdrain.harness.round_state import decoded_pane, encoded_pane
from timers_state import Domain, Layout
from timers_state.cells import Combining, Value
from timers_state.keys import I64_MAX, I64_MIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparkdrain.harness.drain_timers import TimerBound
    from sparkdrain.harness.round_cells import PutOff
    from sparkdrain.harness.round_state import RoundKeyedState
    from timers_state import KeyScope
    from timers_state.record import Record
    from timers_state.records import Records

_CELLS: Final = {
    userstate.ReadModifyWriteStateSpec: Value,
    userstate.CombiningValueStateSpec: Combining,
}


def layout_for(states: Sequence[Any], families: Sequence[bytes], *, expires: bool) -> Layout | None:
    """What records of a DoFn with these states and event timers have; None: they cannot be."""
    values = []
    for spec in states:
        kind = next((_CELLS[class_] for class_ in type(spec).__mro__ if class_ in _CELLS), None)
        if kind is None:
            return None
        values.append((kind, str(spec.name).encode()))
    return Layout(tuple(values), tuple(families), expires)


class RecordPlace:
    """The window of a key that has its turn: see ``round_cells.Place``.

    Order of calls: ``begin``; ``enter``, calls of user code; ``end``.

    Args:
        context: of the DoFn.
        states: what it keeps, in the order of the layout.
        layout: of its records.
    """

    def __init__(self, context: RoundKeyedState, states: Sequence[Any], layout: Layout) -> None:
        self._context = context
        self._encode_window = context.encode_window
        self._last_window: Any = None
        self._last_section = b""
        self._key: Any = None
        self._encoded = b""
        self._head: Record | None = None
        # Always this list: cells know it.
        self.changed: list[PutOff] = []
        self._beyond: list[tuple[bytes, bytes, bytes, int | None, bytes]] = []
        self.records: Records = context.records(layout)
        self.record: Record = None  # type: ignore[assignment]
        self.window: Any = None
        self._expiry_of = context.expiry_of
        self.expires = context.expiry_of is not None
        self.bound = context.bound
        self.cells: dict[Any, RecordValue | RecordAccumulator] = {}
        for number, spec in enumerate(states):
            kind = context.kind(spec)
            if isinstance(kind, CombiningKind):
                self.cells[spec.name] = RecordAccumulator(kind, self, _Stored(self, number))
            else:
                self.cells[spec.name] = RecordValue(kind, self, number)
        self._all_cells = tuple(self.cells.values())
        self._families = {family: number for number, family in enumerate(layout.families)}

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
        self.window = None
        self.bound.is_on = False
        return True

    def enter(self, window: Any, key: Any) -> None:
        """Calls that follow are for this window."""
        self._key = key
        if window is self._last_window:
            section = self._last_section
        else:
            section = self._last_section = self._encode_window(window)
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
            self._leave()
        self.record = record
        self.window = window
        for cell in self._all_cells:
            cell.renew()

    def end(self) -> None:
        """The turn is over: what has changed goes to the records."""
        if self.window is not None:
            self._leave()
            if self._beyond:
                self._go_beyond()

    def next_due(self, up_to: int) -> tuple[Record, int] | None:
        """The record and number of the key's first timer at or before ``up_to``."""
        head = self._head
        if head is None:
            return None
        if head.more is None and len(head.times) == 1:
            time = head.times[0]
            return None if time is None or time > up_to else (head, 0)
        first: tuple[int, bytes, int] | None = None
        found: Record | None = None
        record: Record | None = head
        while record is not None:
            for number, time in enumerate(record.times):
                if time is not None and time <= up_to:
                    order = time, record.window, number
                    if first is None or order < first:
                        first, found = order, record
            record = record.more
        return None if found is None or first is None else (found, first[2])

    def _leave(self) -> None:
        changed = self.changed
        while changed:
            changed.pop().store()
        self.records.end(self.record)

    @property
    def is_outgrown(self) -> bool:
        """Whether the key will have no records after this turn."""
        return bool(self._beyond)

    def _go_beyond(self) -> None:
        """Has a scope take the key over."""
        self.records.is_closed = True
        timers = self._context.scope_of(self._encoded).timers(Domain.EVENT)
        for section, family, tag, time, payload in self._beyond:
            if time is None:
                timers.clear(family, tag, section)
            else:
                timers.set(time, family, tag, section, payload)
        self._beyond = []

    # --- what cells and timers ask --------------------------------------------------------------

    @property
    def section(self) -> bytes:
        return self.record.window

    def scope(self) -> KeyScope:
        message = "a key that has records has no scope"
        raise NotImplementedError(message)

    def keep(self) -> None:
        expiry_of, record = self._expiry_of, self.record
        if expiry_of is not None and record.expiry is None:
            self.records.expire_at(record, expiry_of(self.window))

    def put_off(self, cell: PutOff) -> None:
        self.changed.append(cell)

    def where(self) -> str:
        return f"key {self._key!r}, window {self.window}"

    def admits(self, family: bytes, time: int) -> int | None:
        """See ``WindowPlace``."""
        return self.bound.admits(family, Domain.EVENT, time, self.window, self._expiry_of)

    def beyond(self, family: bytes, tag: bytes, time: int | None, payload: bytes) -> None:
        """What is set (None: cleared) with a dynamic tag, at the end of the turn."""
        self.keep()
        self._beyond.append((self.record.window, family, tag, time, payload))

    def number(self, family: bytes) -> int:
        """Where records have the timer of a family."""
        return self._families[family]


def pane_of(bound: TimerBound, time: int, payload: bytes) -> Any:
    """The pane in which a timer was set that fires now."""
    if payload or bound.repeats is not None:
        payload = bound.fires(Domain.EVENT, time, payload)
    return decoded_pane(payload) if payload else PANE_INFO_UNKNOWN


class _Stored:
    """A value of the record that has its turn, as the store's cells are."""

    __slots__ = ("_number", "_place")

    def __init__(self, place: RecordPlace, number: int) -> None:
        self._place = place
        self._number = number

    def get(self) -> bytes | None:
        return self._place.record.values[self._number]

    def set(self, value: bytes) -> None:
        place = self._place
        if place.expires:
            place.keep()
        place.records.put_value(place.record, self._number, value)

    def clear(self) -> None:
        place = self._place
        place.records.put_value(place.record, self._number, None)


class RecordValue(ValueCell):
    """A single value of whatever record has its turn; no calls where they can be spared."""

    def __init__(self, kind: Kind, place: RecordPlace, number: int) -> None:
        super().__init__(kind, place)
        self._at = place
        self._records = place.records
        self._number = number
        self._decode = kind.decode
        self._encode = kind.encode
        self._put_off = place.changed

    def read(self) -> Any:
        value = self._value
        if value is UNREAD:
            data = self._at.record.values[self._number]
            if data is None:
                value = None
            else:
                try:
                    value = self._decode(data)
                except Exception:  # noqa: BLE001 - the kind says what is wrong
                    value = self._kind.decoded(data, self._at)
            self._value = value
        return value

    def write(self, value: Any) -> None:
        self._value = value
        if not self._changed:
            self._changed = True
            self._put_off.append(self)

    def store(self) -> None:
        """See ``PutOff``."""
        self._changed = False
        value = self._value
        place = self._at
        if place.expires:
            place.keep()
        if value is None:
            self._records.put_value(place.record, self._number, None)
            return
        try:
            data = self._encode(value)
        except Exception:  # noqa: BLE001 - the kind says what is wrong
            data = self._kind.encoded(value)
        self._records.put_value(place.record, self._number, data)

    def renew(self) -> None:
        """What was read is another record's."""
        self._value = UNREAD


class RecordAccumulator(CombiningCell):
    """An accumulator of whatever record has its turn."""

    def __init__(self, kind: CombiningKind, place: RecordPlace, stored: Any) -> None:
        super().__init__(kind, place)
        self._cell = stored

    def renew(self) -> None:
        """What was read is another record's."""
        self._accumulator = UNREAD


class RecordTimer(userstate.BaseTimer):
    """Sets and clears the event timers of a family of whatever record has its turn."""

    __slots__ = ("_family", "_number", "_pane", "_place", "_records", "_time", "_timestamp")

    def __init__(self, place: RecordPlace, family: bytes) -> None:
        self._place = place
        self._records = place.records
        self._family = family
        self._number = place.number(family)
        self._pane: Any = PANE_INFO_UNKNOWN
        self._timestamp: Any = None
        self._time = 0

    def set_in(self, pane: Any) -> RecordTimer:
        """Itself, for the next element."""
        self._pane = pane
        return self

    def set(self, timestamp: Any, dynamic_timer_tag: str = "") -> None:
        """Fire at ``timestamp``; replaces an earlier setting of the same tag."""
        if timestamp is self._timestamp:  # many keys are given the same one
            time = self._time
        else:
            time = micros(timestamp)
            if not I64_MIN <= time <= I64_MAX:  # Beam's timestamps have no ends
                time = min(max(time, I64_MIN), I64_MAX)
            if type(timestamp) is Timestamp:
                self._timestamp, self._time = timestamp, time
        place = self._place
        pane = self._pane
        payload = b"" if pane is PANE_INFO_UNKNOWN else encoded_pane(pane)
        if place.bound.is_on:
            generation = place.admits(self._family, time)
            if generation is None:
                return
            payload = marked(generation, payload)
        if dynamic_timer_tag:
            place.beyond(self._family, dynamic_timer_tag.encode(), time, payload)
            return
        if place.expires:
            place.keep()
        self._records.set_timer(place.record, self._number, time, payload)

    def clear(self, dynamic_timer_tag: str = "") -> None:
        """Take back the setting of this tag, if there is one."""
        place = self._place
        if dynamic_timer_tag:
            place.beyond(self._family, dynamic_timer_tag.encode(), None, b"")
        else:
            self._records.clear_timer(place.record, self._number)
