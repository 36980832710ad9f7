"""Cells and timers of whatever record has its turn, made once for each state and family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN

from sparkdrain.harness.round_cells import UNREAD, CombiningCell, CombiningKind, Kind, micros
from sparkdrain.harness.round_state import bounded, payload_of
from timers_state import Domain
from timers_state.record import MOST_ITEM_BYTES
from timers_state.record_items import NO_BAG, NO_SET, all_of, is_among, with_more

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.harness.record_state import RecordPlace
    from timers_state.record_items import Items


class Stored:
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


class RecordValue(userstate.ReadModifyWriteRuntimeState):
    """A single value of whatever record has its turn; no calls where they can be spared.

    Attributes:
        value: what was read or written.
        is_changed: whether it was written.
    """

    def __init__(self, kind: Kind, place: RecordPlace, number: int) -> None:
        self.value = UNREAD
        self.is_changed = False
        self.kind = kind
        self._place = place
        self._number = number
        self._decode = kind.decode
        self._encode = kind.encode
        self._put = place.records.put_value

    def read(self) -> Any:
        value = self.value
        if value is UNREAD:
            data = self._place.record.values[self._number]
            if data is None:
                value = None
            else:
                try:
                    value = self._decode(data)
                except Exception:  # noqa: BLE001 - the kind says what is wrong
                    value = self.kind.decoded(data, self._place)
            self.value = value
        return value

    def write(self, value: Any) -> None:
        self.value = value
        self.is_changed = True

    def clear(self) -> None:
        self.value = None
        self.is_changed = True

    def store(self) -> None:
        """See ``PutOff``."""
        self.is_changed = False
        data = self.value
        place = self._place
        if place.expires:
            place.keep()
        if data is not None:
            try:
                data = self._encode(data)
            except Exception:  # noqa: BLE001 - the kind says what is wrong
                data = self.kind.encoded(data)
        self._put(place.record, self._number, data)

    def renew(self) -> None:
        """What was read is another record's."""
        self.value = UNREAD


class RecordAccumulator(CombiningCell):
    """An accumulator of whatever record has its turn."""

    def __init__(self, kind: CombiningKind, place: RecordPlace, stored: Any) -> None:
        super().__init__(kind, place)
        self._cell = stored

    @property
    def is_changed(self) -> bool:
        """Whether something was added, or it was cleared."""
        return self._changed

    def renew(self) -> None:
        """What was read is another record's."""
        self._accumulator = UNREAD


class RecordItems:
    """What bags and sets have in common: what is added goes to the record when the turn ends."""

    nothing = NO_BAG
    fresh: Callable[[], Any] = list

    def __init__(self, kind: Kind, place: RecordPlace, number: int) -> None:
        self.is_changed = False
        self._is_cleared = False
        self._added: Any = self.fresh()
        self.kind = kind
        self._place = place
        self._number = number
        self._left = MOST_ITEM_BYTES

    def _stored(self) -> Items:
        if self._is_cleared:
            return self.nothing
        items: Items | None = self._place.record.values[self._number]
        return items or self.nothing

    def _is_more(self, data: bytes) -> None:
        """Something was added."""
        self.is_changed = True
        self._left -= len(data)
        if self._left < 0:
            self._place.outgrow()  # all that comes is not to be in memory at once

    def clear(self) -> None:
        """Takes everything out."""
        self._added = self.fresh()
        self._is_cleared = True
        self.is_changed = True

    def store(self) -> None:
        """See ``PutOff``."""
        place, added = self._place, self._added
        if place.expires:
            place.keep()
        records, record, number = place.records, place.record, self._number
        if self._is_cleared:
            records.clear_items(record, number)
        if added:
            items = with_more(self._stored(), added)
            records.extend(record, number, items)
            if items[0] > MOST_ITEM_BYTES:
                place.outgrow()
            self._added = self.fresh()
        self.renew()

    def renew(self) -> None:
        """What was read is another record's."""
        self.is_changed = self._is_cleared = False
        self._left = MOST_ITEM_BYTES


class RecordBag(RecordItems, userstate.BagRuntimeState):
    """A bag of whatever record has its turn."""

    def read(self) -> list[Any]:
        items = (*all_of(self._stored()), *self._added)
        return list(self.kind.all_decoded(items, self._place))

    def add(self, value: Any) -> None:
        data = self.kind.encoded(value)
        self._added.append(data)
        self._is_more(data)


class RecordSet(RecordItems, userstate.SetRuntimeState):
    """A set of whatever record has its turn, read in the order of bytes, as those of scopes are."""

    nothing = NO_SET
    fresh = dict

    def read(self) -> list[Any]:
        items = sorted((*all_of(self._stored()), *self._added))
        return list(self.kind.all_decoded(items, self._place))

    def add(self, value: Any) -> None:
        data = self.kind.encoded(value)
        if data not in self._added and not is_among(data, self._stored()):
            self._added[data] = None
            self._is_more(data)


class RecordTimer(userstate.BaseTimer):
    """Sets and clears the event timers of a family of whatever record has its turn."""

    __slots__ = (
        "_family",
        "_is_alone",
        "_number",
        "_pane",
        "_place",
        "_records",
        "_times",
        "_timestamp",
    )

    def __init__(self, place: RecordPlace, family: bytes) -> None:
        self._place = place
        self._records = place.records
        self._family = family
        self._number = place.number(family)
        self._is_alone = len(place.records.layout.families) == 1
        self._pane: Any = PANE_INFO_UNKNOWN
        self._timestamp: Any = None
        self._times = (0,)

    def set_in(self, pane: Any) -> RecordTimer:
        """Itself, for the next element."""
        self._pane = pane
        return self

    def set(self, timestamp: Any, dynamic_timer_tag: str = "") -> None:
        """Fire at ``timestamp``; replaces an earlier setting of the same tag."""
        if timestamp is self._timestamp:  # many keys are given the same one
            times = self._times
        else:
            times = (bounded(timestamp),)
            if type(timestamp) is Timestamp:
                self._timestamp, self._times = timestamp, times
        place = self._place
        if dynamic_timer_tag or place.bound.is_on or self._pane is not PANE_INFO_UNKNOWN:
            self._set(times[0], dynamic_timer_tag)
            return
        if place.expires:
            place.keep()
        if self._is_alone:
            self._records.set_only_timer(place.record, times)
        else:
            self._records.set_timer(place.record, self._number, times[0])

    def _set(self, time: int, tag: str) -> None:
        """With a pane, in a drain, or with a tag."""
        place = self._place
        payload = payload_of(place, self._family, Domain.EVENT, time, self._pane)
        if payload is None:
            return
        if tag:
            place.set_timer((Domain.EVENT, self._family, tag.encode()), time, payload)
            return
        if place.expires:
            place.keep()
        self._records.set_timer(place.record, self._number, time, payload)

    def clear(self, dynamic_timer_tag: str = "") -> None:
        """Take back the setting of this tag, if there is one."""
        if dynamic_timer_tag:
            self._place.clear_timer((Domain.EVENT, self._family, dynamic_timer_tag.encode()))
        else:
            self._records.clear_timer(self._place.record, self._number)


class ProcessingTimer(userstate.BaseTimer):
    """Sets and clears the processing-time timers of a family of whatever record has its turn."""

    __slots__ = ("_family", "_pane", "_place", "_timestamp")

    def __init__(self, place: RecordPlace, family: bytes) -> None:
        self._place = place
        self._family = family
        self._timestamp: Any = None
        self._pane: Any = PANE_INFO_UNKNOWN

    def set_at(self, timestamp: Any, pane: Any) -> ProcessingTimer:
        """Itself, for the next element, or timer that fires; its time holds the output back."""
        self._timestamp = timestamp
        self._pane = pane
        return self

    def set(self, timestamp: Any, dynamic_timer_tag: str = "") -> None:
        """Fire at ``timestamp``; replaces an earlier setting of the same tag."""
        place, family = self._place, self._family
        time, tag = bounded(timestamp), dynamic_timer_tag.encode()
        payload = payload_of(place, family, Domain.PROCESSING, time, self._pane)
        if payload is None:
            return
        place.set_timer((Domain.PROCESSING, family, tag), time, payload)
        place.set_timer((Domain.HOLD, family, tag), micros(self._timestamp), b"")

    def clear(self, dynamic_timer_tag: str = "") -> None:
        """Take back the setting of this tag, if there is one."""
        for domain in (Domain.PROCESSING, Domain.HOLD):
            self._place.clear_timer((domain, self._family, dynamic_timer_tag.encode()))


def timer_of(place: RecordPlace, spec: Any) -> RecordTimer | ProcessingTimer:
    """What user code gets for a ``TimerSpec``."""
    family = spec.name.encode()
    if TimeDomain.is_event_time(spec.time_domain):
        return RecordTimer(place, family)
    return ProcessingTimer(place, family)


RecordCell = RecordValue | RecordAccumulator | RecordBag | RecordSet
