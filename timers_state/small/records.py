"""The records of one state: its keys as long as they are small, and in memory."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from timers_state.keys import EVENT, EXPIRY, HOLD, PROCESSING, Domain
from timers_state.small.loading import RecordLoading
from timers_state.small.record import (
    NO_OTHERS,
    OTHER_TIMER_BYTES,
    RECORD_BYTES,
    SAVED_BYTES,
    SET_TIMER_BYTES,
    VALUE_BYTES,
    Record,
    size_of,
    times_in,
)
from timers_state.small.rows import RecordRows
from timers_state.small.times import RecordTimes, TimeLists

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from timers_state.keys import TimerName
    from timers_state.small.record import Content, Copied, Layout
    from timers_state.small.times import Parked

_LEASE: Final = 1 << 16
_PLACE_BYTES: Final = 24
"""What an item costs in a list or dict that shares it with another, about."""


class Records:
    """Keys of one state that are kept as ``Record``s, within rounds.

    A key is here, or in a scope, or only in the store. The overlay takes a key away from here when
    the key's scope is asked for. Call ``begin`` with a key before you change its records. The
    overlay does not take these records away before the next call of ``begin``, and as long as the
    key is in ``beside``.

    Args:
        load: what the store has of a key; None if it is elsewhere too, or cannot be records.
        lend: gives room by ``get_room``, if need be by writing out, which may take records away.

    Attributes:
        heads: by key: its record, of any of its windows; always this dict.
        is_complete: whether no key of this state is anywhere else.
        rows: what the store has of records, or is to have.
        loading: makes records of what the store has.
        in_use: the key whose turn it is, or was last.
        beside: keys whose turns go on while other keys begin theirs; always this set.
        hidden: those of them whose timers are not found, see ``hide``; always this dict.
        room: bytes that records may take before there has to be more; ``borrow`` if it is negative.
    """

    def __init__(
        self,
        state_id: int,
        layout: Layout,
        load: Callable[[Records, bytes], list[Record] | None],
        lend: Callable[[Records, int], object],
        *,
        is_new: bool,
    ) -> None:
        self.heads: dict[bytes, Record] = {}
        self.state_id = state_id
        self.layout = layout
        self.is_complete = is_new
        self.room = 0
        self.leased = 0
        self.empty = layout.empty
        self._no_values, self._no_times, self._no_payloads, _, _ = self.empty
        self._cost = RECORD_BYTES + SET_TIMER_BYTES * len(layout.families)
        self._load = load
        self._lend = lend
        self.rows = RecordRows(state_id, layout)
        self.loading = RecordLoading(state_id, layout, self.empty)
        hidden: dict[bytes, list[Parked]] = {}
        self.hidden = hidden
        self._times = RecordTimes(hidden)
        self._lists = {
            EVENT: self._times,
            EXPIRY: TimeLists(attrgetter("expiry"), hidden),
            PROCESSING: TimeLists(lambda record: record.first_other(PROCESSING), hidden),
            HOLD: TimeLists(lambda record: record.first_other(HOLD), hidden),
        }
        self._expiries = self._lists[EXPIRY]
        self._changed: list[Record] = []
        self._emptied: list[Record] = []
        self._aside = 0
        self.in_use = b""
        self.beside: set[bytes] = set()

    # --- for callers that change records ------------------------------------------------------

    def begin(self, key: bytes) -> Record | None:
        """The first record of a key, if it has any; from now on it is in use."""
        self.in_use = key
        if self.room < 0:
            self.borrow()
        return self.heads.get(key)  # now: that may have taken keys away

    def borrow(self) -> None:
        """Gets room, which may take keys away that are not in use."""
        self._lend(self, _LEASE - self.room)

    def takes(self, key: bytes) -> bool:
        """Whether a key that has no record can have some; it has those then that the store has."""
        if self.is_complete:
            return True
        loaded = self._load(self, key)
        if loaded is None:
            return False
        self.take_in(loaded)
        return True

    def take_in(self, loaded: list[Record]) -> int:
        """Has the records of a key from now on, as the store has them; returns what they cost."""
        cost = 0
        for record in loaded:
            cost += self._cost_of(record)
            record.more = self.heads.get(record.key)
            self.heads[record.key] = record
            self._list(record, self.empty)
        self.room -= cost
        return cost

    def add(self, key: bytes, window: bytes) -> Record:
        """A record without content."""
        record = Record(key, window, self.empty)
        head = self.heads.get(key)
        if head is None:
            self.heads[key] = record
        else:
            record.more = head.more
            head.more = record
        self.room -= self._cost + len(key) + len(window)
        return record

    def put_value(self, record: Record, number: int, value: bytes | None) -> None:
        """Replaces a value."""
        values = record.values
        before = values[number]
        if value == before:
            return
        saved = record.saved or self._save(record)
        free = 0 if value is None else -VALUE_BYTES - len(value)
        if before is not None:
            if saved[0][number] is before:  # the first are the values
                self._aside += VALUE_BYTES + len(before)  # it stays until the round ends
            else:
                free += VALUE_BYTES + len(before)
        self.room += free
        if len(values) == 1:
            record.values = self._no_values if value is None else (value,)
        else:
            self._replace(record, number, value)

    def replace_items(self, record: Record, number: int, items: Copied | None) -> None:
        """Replaces the items of a state; None: there are none."""
        before: Copied | None = record.values[number]
        if before is None and items is None:
            return
        saved_values, _, _, _, _ = record.saved or self._save(record)
        if before is not None:
            size, there = before
            if saved_values[number] is not before:
                self.room += VALUE_BYTES + size
            elif items is None or items[0] < size:
                self._aside += VALUE_BYTES + size  # it stays until the round ends
            else:  # both share the strings
                aside = VALUE_BYTES + _PLACE_BYTES * len(there)
                self._aside += aside
                self.room += VALUE_BYTES + size - aside
        if items is not None:
            size, _ = items
            self.room -= VALUE_BYTES + size
        self._replace(record, number, items)

    def set_timer(self, record: Record, number: int, time: int, payload: bytes = b"") -> None:
        """Sets or moves a timer."""
        times = record.times
        if record.saved is None:
            self._save(record)
        if len(times) == 1:
            record.times = (time,)
        else:
            record.times = (*times[:number], time, *times[number + 1 :])
        if payload or record.payloads is not self._no_payloads:
            self._set_payload(record, number, payload)
        listed = record.listed
        if listed is None or time < listed:
            self._times.list(record, time)

    def set_only_timer(self, record: Record, times: tuple[int]) -> None:
        """As ``set_timer``, of a layout with one family, and without a payload.

        Many records may be given the same ``times``.
        """
        if record.saved is None:
            self._save(record)
        record.times = times
        if record.payloads is not self._no_payloads:
            self._set_payload(record, 0, b"")
        listed = record.listed
        if listed is None or times[0] < listed:
            self._times.list(record, times[0])

    def clear_timer(self, record: Record, number: int) -> None:
        """Makes sure that a timer does not fire."""
        times = record.times
        if times[number] is None:
            return
        if record.saved is None:
            self._save(record)
        if len(times) == 1:
            record.times = self._no_times
        else:
            changed = (*times[:number], None, *times[number + 1 :])
            record.times = self._no_times if changed == self._no_times else changed
        if record.payloads is not self._no_payloads:
            self._set_payload(record, number, b"")

    def take_timer(self, record: Record, number: int) -> tuple[int, bytes]:
        """Takes out a timer that is set: its time and payload."""
        time, payload = record.times[number], record.payloads[number]
        assert time is not None
        self.clear_timer(record, number)
        return time, payload

    def set_other(self, record: Record, name: TimerName, time: int, payload: bytes = b"") -> None:
        """Sets or moves a timer that follows processing time, or has a dynamic tag."""
        if record.saved is None:
            self._save(record)
        before = record.others.get(name)
        if before is None:
            self.room -= OTHER_TIMER_BYTES + len(payload)
        else:
            self.room -= len(payload) - len(before[1])
        record.others = {**record.others, name: (time, payload)}
        domain = name[0]
        if domain is not EVENT:
            if before is None or before[0] != time:
                self._lists[domain].list(record, time)
        elif record.listed is None or time < record.listed:
            self._times.list(record, time)

    def clear_other(self, record: Record, name: TimerName) -> None:
        """Makes sure that such a timer does not fire."""
        if name in record.others:
            self.take_other(record, name)

    def take_other(self, record: Record, name: TimerName) -> tuple[int, bytes]:
        """Takes out such a timer, which is set: its time and payload."""
        if record.saved is None:
            self._save(record)
        others = dict(record.others)
        time, payload = others.pop(name)
        record.others = others or NO_OTHERS
        self.room += OTHER_TIMER_BYTES + len(payload)
        return time, payload

    def expire_at(self, record: Record, time: int | None) -> None:
        """Says when the record's window expires; None: that was dealt with."""
        if record.expiry == time:
            return
        if record.saved is None:
            self._save(record)
        record.expiry = time
        if time is not None:
            self._expiries.list(record, time)

    def forget(self, record: Record) -> None:
        """Takes everything from a record."""
        if record.saved is None:
            self._save(record)
        self.room += size_of(record.content())
        record.values, record.times, record.payloads, record.expiry, record.others = self.empty
        self._emptied.append(record)

    def forget_all(self) -> None:
        """Takes everything from all records."""
        for record in self.all():
            if record.content() != self.empty:
                self.forget(record)

    def end(self, record: Record) -> None:
        """A record's turn is over."""
        record.recent = True
        if (
            record.values is self._no_values
            and record.times is self._no_times
            and not record.others
        ):
            if record.expiry is not None:
                self.expire_at(record, None)
            self._emptied.append(record)

    # --- for turns whose changes come later ---------------------------------------------------

    def apart(self) -> Records:
        """Records for copies of keys. No store has anything of them."""
        return Records(
            self.state_id, self.layout, lambda records, key: [], Records.get_room, is_new=True
        )

    def copies(self, key: bytes) -> list[Record]:
        """Records with the same content, for ``take_in`` of other records."""
        return [Record(key, record.window, record.content()) for record in self.of(key)]

    def take_changes(self) -> list[tuple[bytes, Content]]:
        """The content of records that have changed since the last call, by window."""
        changed = [(record.window, record.content()) for record in self._changed]
        self.commit()
        for lists in self._lists.values():
            lists.clear()  # nothing is asked for of copies, however long their turn goes on
        return changed

    def put(
        self, key: bytes, changed: Iterable[tuple[bytes, Content]], *, ends: bool = True
    ) -> None:
        """Make the changes that other records have made to copies of a key.

        Args:
            ends: whether the turn of these records is over; else a scope takes them over.
        """
        self.begin(key)
        for window, content in changed:
            same = (record for record in self.of(key) if record.window == window)
            record = next(same, None) or self.add(key, window)
            self._put(record, content)
            if ends:
                self.end(record)

    def _put(self, record: Record, content: Content) -> None:
        before = record.content()
        if record.saved is None:
            self._save(record)
            size = size_of(before)
            self._aside += size  # it stays until the round ends
            self.room -= size
        self.room += size_of(before) - size_of(content)
        record.values, record.times, record.payloads, record.expiry, record.others = content
        self._list(record, before)

    def hide(self, key: bytes) -> None:
        """Take the timers of a key, and when its windows expire, out of all lists until ``show``.

        The key is in ``beside`` meanwhile.
        """
        self.hidden.setdefault(key, [])

    def show(self, key: bytes) -> None:
        """Undo ``hide``."""
        there, times = self.of(key), self._times
        for lists, record, time in self.hidden.pop(key, ()):
            # A timer that was set meanwhile may have it listed before that.
            if record in there and (lists is not times or record.listed == time):
                lists.list(record, time)

    # --- for the overlay ----------------------------------------------------------------------

    def first(self, domain: Domain, up_to: int | None) -> tuple[int, bytes] | None:
        """Time and key of the earliest timer; not exactly, if it is after ``up_to``."""
        lists = self._lists[domain]
        record = lists.first(up_to)
        if record is None:
            return None
        time = lists.time_of(record)
        return None if time is None else (time, record.key)

    def count(self, domain: Domain) -> int:
        """How many timers are set."""
        return sum(1 for record in self.all() for _ in times_in(record.content(), domain))

    @property
    def has_changed(self) -> bool:
        """Whether the running round has changed anything."""
        return bool(self._changed)

    @property
    def aside_bytes(self) -> int:
        """Roughly what the running round has changed."""
        return self._aside + SAVED_BYTES * len(self._changed)

    def commit(self) -> None:
        """What the round changed stays."""
        for record in self._changed:
            record.saved = None
        self._end_round()

    def store_is_empty(self) -> None:
        """The store has nothing anymore of any key of this state."""
        for record in self.all():
            record.base = None
            self._emptied.append(record)

    def undo(self) -> None:
        """Go back to where the round began. No turn goes on."""
        self.beside.clear()
        for key in [*self.hidden]:
            self.show(key)
        for record in self._changed:
            saved = record.saved
            if saved is None:  # it was taken away
                continue
            record.saved = None
            self.room += size_of(record.content()) - size_of(saved)
            record.values, record.times, record.payloads, record.expiry, record.others = saved
            self._list(record, self.empty)
            self._emptied.append(record)
        self._end_round()

    def unwritten(self) -> list[Record]:
        """Records that may differ from the store; each one that does is among them."""
        return [record for record in self.all() if _may_differ(record)]

    def is_in_use(self, key: bytes) -> bool:
        """Whether the key's turn goes on, or was the last one."""
        return key == self.in_use or key in self.beside

    def are_any_idle(self) -> bool:
        """Whether there is a key that is not in use."""
        heads = self.heads
        return len(heads) > sum(key in heads for key in {self.in_use, *self.beside})

    def of(self, key: bytes) -> list[Record]:
        """The records of a key."""
        return list(_chain(self.heads.get(key)))

    def are_written(self, added: Iterable[tuple[Record, Content]]) -> None:
        """The store has what ``rows`` has added to a batch."""
        empty = self.empty
        for record, content in added:
            if content == empty:
                record.base = None
                self._emptied.append(record)
            else:
                record.base = content
        if not self._changed:
            self._drop_empty(self.is_in_use)

    def evict(self, need: int) -> tuple[list[Record], list[Record]]:
        """Lets go of keys that the round has not changed, those not used lately first.

        Returns:
            Those of their records that may differ from the store, and are to be written; and all.
        """
        gone: list[Record] = []
        freed = 0
        for any_will_do in (False, True):
            doomed = []
            for key, head in self.heads.items():
                if freed >= need:
                    break
                if head.recent and not any_will_do:
                    head.recent = False
                    continue
                chain = list(_chain(head))
                if self.is_in_use(key) or any(record.saved is not None for record in chain):
                    continue
                freed += sum(map(self._cost_of, chain))
                gone += chain
                doomed.append(key)
            for key in doomed:
                del self.heads[key]
        if gone:
            self.is_complete = False
        self.room += freed
        return [record for record in gone if _may_differ(record)], gone

    def take(self, key: bytes) -> list[Record]:
        """Takes a key away: its records, which are not to be changed anymore."""
        taken = list(_chain(self.heads.pop(key)))
        for record in taken:
            self.room += self._cost_of(record)
        self.is_complete = False
        return taken

    def get_room(self, size: int) -> int:
        """Gets room for so many bytes; returns how many."""
        self.room += size
        self.leased += size
        return size

    def give_back(self) -> int:
        """Gives back room that is not used; says how much."""
        room = max(self.room, 0)
        self.room -= room
        self.leased -= room
        return room

    def drop_all(self, but: Iterable[bytes] = ()) -> None:
        """Forget the records of all keys but some: their content is elsewhere."""
        heads = [head for key in but if (head := self.heads.get(key)) is not None]
        kept = [record for head in heads for record in _chain(head)]
        self.heads.clear()
        for lists in self._lists.values():
            lists.clear()
        for parked in self.hidden.values():
            parked.clear()
        self._changed = [record for record in kept if record.saved is not None]
        self._emptied = []
        self._aside = 0
        self.leased = 0
        self.room = -self.aside_bytes - sum(map(self._cost_of, kept))
        self.is_complete = False
        for head in heads:
            self.heads[head.key] = head
        for record in kept:
            record.listed = None
            self._list(record, self.empty)

    def all(self) -> Iterator[Record]:
        """All records."""
        for head in self.heads.values():
            yield from _chain(head)

    def _replace(self, record: Record, number: int, value: Any) -> None:
        values = record.values
        changed = (*values[:number], value, *values[number + 1 :])
        record.values = self._no_values if changed == self._no_values else changed

    def _save(self, record: Record) -> Content:
        saved = record.saved = (
            record.values,
            record.times,
            record.payloads,
            record.expiry,
            record.others,
        )
        self._changed.append(record)
        self.room -= SAVED_BYTES
        return saved

    def _set_payload(self, record: Record, number: int, payload: bytes) -> None:
        before = record.payloads
        self.room -= len(payload) - len(before[number])
        changed = (*before[:number], payload, *before[number + 1 :])
        record.payloads = self._no_payloads if changed == self._no_payloads else changed

    def _list(self, record: Record, known: Content) -> None:
        """Lists the times of a record, but those other than of event timers in ``known``."""
        _, _, _, expiry, others = known
        first = record.first_time()
        if first is not None and (record.listed is None or first < record.listed):
            self._times.list(record, first)
        if record.expiry is not None and record.expiry != expiry:
            self._expiries.list(record, record.expiry)
        for name, (time, _) in record.others.items():
            domain, before = name[0], others.get(name)
            if domain is not EVENT and (before is None or before[0] != time):
                self._lists[domain].list(record, time)

    def _cost_of(self, record: Record) -> int:
        return self._cost + len(record.key) + len(record.window) + size_of(record.content())

    def _end_round(self) -> None:
        self.room += self.aside_bytes
        self._changed = []
        self._aside = 0
        self._emptied += _chain(self.heads.get(self.in_use))  # if the round broke off
        self._drop_empty()
        self._times.tidy(len(self.heads), self.all())

    def _drop_empty(self, stays: Callable[[bytes], bool] = lambda key: False) -> None:
        """Lets go of records without content of which the store has nothing either."""
        kept = []
        for record in self._emptied:
            if stays(record.key):
                kept.append(record)
            elif record.base is None and record.content() == self.empty:
                self._drop(record)
        self._emptied = kept

    def _drop(self, record: Record) -> None:
        head = self.heads.get(record.key)
        if head is record:
            self.room += self._cost_of(record)
            if record.more is None:
                del self.heads[record.key]
            else:
                self.heads[record.key] = record.more
            return
        while head is not None:
            if head.more is record:
                self.room += self._cost_of(record)
                head.more = record.more
                return
            head = head.more


def retire(records: list[Record]) -> None:
    """Makes sure that records that are gone are not found by their times."""
    for record in records:
        record.listed = None
        record.expiry = None
        record.others = NO_OTHERS
        record.saved = None


def _may_differ(record: Record) -> bool:
    """Whether the store may have something else; False if it has the very same objects."""
    if record.base is None or record.saved is not None:
        return True
    values, times, payloads, expiry, others = record.base
    return (
        record.values is not values
        or record.times is not times
        or record.payloads is not payloads
        or record.expiry != expiry
        or record.others is not others
    )


def _chain(head: Record | None) -> Iterator[Record]:
    while head is not None:
        yield head
        head = head.more
