"""Records of keys that the store has rows of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from timers_state.keys import (
    EVENT,
    EXPIRY,
    HOLD,
    Domain,
    Family,
    cell_of_row,
    decode_i64,
    escape_again,
    state_prefix,
    time_row,
    timer_name,
    timer_of_owned_tag_row,
)
from timers_state.small.kinds import SMALL_CELLS
from timers_state.small.record import MOST_ITEM_BYTES, MOST_OTHER_TIMERS, NO_OTHERS, Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from timers_state.keys import TimerName
    from timers_state.small.record import Content, Layout
    from timers_state.store.store import RowsOf, Store

_MOST_ROWS: Final = 64
"""A key with more rows than this is not looked at any further."""

_MOST_NAMES: Final = 1024
_EXPIRY: Final = -1

Placed = tuple[bytes, bytes]
"""A key's ``owner_in_time``, which is its place in the store, and the key."""


class _Draft:
    """What was found of a window."""

    __slots__ = ("expiry", "others", "times", "values")

    def __init__(self, values: int, families: int) -> None:
        self.values: list[Any] = [None] * values
        self.times: list[int | None] = [None] * families
        self.expiry: int | None = None
        self.others: dict[TimerName, int] = {}


class RecordLoading:
    """Makes records of rows, for one state.

    What follows the place of a key in its rows says which window and value, or timer, it is. These
    are few for many keys, so they are taken apart once.
    """

    def __init__(self, state_id: int, layout: Layout, empty: Content) -> None:
        has_timers = bool(layout.families or layout.expires or layout.others)
        families = (Family.CELLS,) + (Family.TAGS,) * has_timers
        self._heads = [state_prefix(family, state_id) for family in families]
        self._state = state_id
        self._empty = empty
        self._values = {
            (kind.KIND, tag): (number, SMALL_CELLS.get(kind))
            for number, (kind, tag) in enumerate(layout.values)
        }
        self._families = {family: number for number, family in enumerate(layout.families)}
        self._cells: dict[bytes, tuple[bytes, int]] = {}
        self._timers: dict[bytes, tuple[bytes, int]] = {}
        self._names = [timer_name(family, b"") for family in layout.families]

    def load(
        self, store: Store, placed: Sequence[Placed], most_bytes: int
    ) -> list[list[Record] | None]:
        """The records of keys, one for each window; None for keys that cannot be records.

        What is missing in them is just what ``empty`` has. All rows are read in one pass.

        Args:
            placed: keys in the order of their places.
            most_bytes: how many bytes the values of a key's cells may take, and those of its tags.
        """
        prefixes = [head + place for head in self._heads for place, _ in placed]
        rows = store.read_prefixes(prefixes, _MOST_ROWS, most_bytes)
        cells, tags = rows[: len(placed)], rows[len(placed) :] or [()] * len(placed)
        drafts = [
            self._drafts(of_cells, of_tags, len(place))
            for (place, _), of_cells, of_tags in zip(placed, cells, tags, strict=True)
        ]
        payloads = self._payloads(store, placed, drafts)
        return [
            None
            if found is None
            else [
                self._record(key, place, window, found[window], payloads)
                for window in (sorted(found) if len(found) > 1 else found)
            ]
            for (place, key), found in zip(placed, drafts, strict=True)
        ]

    def _drafts(self, cells: RowsOf, tags: RowsOf, place_length: int) -> dict[bytes, _Draft] | None:
        """What rows have, by window; None if records cannot hold it."""
        if cells is None or tags is None:
            return None
        cut = len(self._heads[0]) + place_length
        found: dict[bytes, _Draft] = {}
        for row, value in cells:
            if not self._take_cell(found, row, cut, value):
                return None
        for row, time in tags:
            if not self._take_timer(found, row, cut, time):
                return None
        return found

    def _take_cell(self, found: dict[bytes, _Draft], row: bytes, cut: int, value: bytes) -> bool:
        """Whether a record can hold the cell of a row."""
        place = self._cells.get(row[cut:])
        if place is not None:
            window, number = place
            self._draft(found, window).values[number] = value
            return True
        window, tag, kind, item = cell_of_row(row, cut)
        known = self._values.get((kind, tag))
        if known is None:
            return False
        number, small = known
        values = self._draft(found, window).values
        if small is None:
            _note(self._cells, row[cut:], window, number)
            values[number] = value
            return True
        items = values[number] = small.with_row(values[number], item, value)
        size, *_ = items
        return bool(size <= MOST_ITEM_BYTES)

    def _take_timer(self, found: dict[bytes, _Draft], row: bytes, cut: int, time: bytes) -> bool:
        """Whether a record can hold the timer of a tag row."""
        place = self._timers.get(row[cut:])
        if place is None:
            window, domain, family, tag = timer_of_owned_tag_row(row, cut)
            number = self._families.get(family) if domain is EVENT else None
            if domain is EXPIRY and not family:
                number = _EXPIRY
            if tag or number is None:
                others = self._draft(found, window).others
                others[domain, family, tag] = decode_i64(time)
                return len(others) <= MOST_OTHER_TIMERS
            _note(self._timers, row[cut:], window, number)
        else:
            window, number = place
        draft = self._draft(found, window)
        if number == _EXPIRY:
            draft.expiry = decode_i64(time)
        else:
            draft.times[number] = decode_i64(time)
        return True

    def _draft(self, found: dict[bytes, _Draft], window: bytes) -> _Draft:
        draft = found.get(window)
        if draft is None:
            values, times, *_ = self._empty
            draft = found[window] = _Draft(len(values), len(times))
        return draft

    def _payloads(
        self, store: Store, placed: Sequence[Placed], drafts: Sequence[dict[bytes, _Draft] | None]
    ) -> dict[bytes, bytes]:
        """The payloads that are not empty, by their rows."""
        rows = [
            self._time_row(place, window, domain, name, time)
            for (place, _), found in zip(placed, drafts, strict=True)
            for window, draft in (found or {}).items()
            for domain, name, time in self._timers_of(draft)
        ]
        if not rows:
            return {}
        rows.sort()
        payloads = store.multi_get(rows)
        return {row: payload for row, payload in zip(rows, payloads, strict=True) if payload}

    def _timers_of(self, draft: _Draft) -> Iterator[tuple[Domain, bytes, int]]:
        """Domain, name and time of timers that may have a payload."""
        for number, time in enumerate(draft.times):
            if time is not None:
                yield EVENT, self._names[number], time
        for (domain, family, tag), time in draft.others.items():
            if domain is not HOLD:
                yield domain, timer_name(family, tag), time

    def _time_row(
        self, place: bytes, window: bytes, domain: Domain, name: bytes, time: int
    ) -> bytes:
        return time_row(self._state, domain, time, place + escape_again(window) + name)

    def _record(
        self, key: bytes, place: bytes, window: bytes, draft: _Draft, payloads: dict[bytes, bytes]
    ) -> Record:
        no_values, no_times, no_payloads, _, _ = self._empty
        values, times = tuple(draft.values), tuple(draft.times)
        of_timers, others = no_payloads, NO_OTHERS

        def payload_of(domain: Domain, name: bytes, time: int) -> bytes:
            return payloads.get(self._time_row(place, window, domain, name, time), b"")

        if payloads:
            of_timers = tuple(
                b"" if time is None else payload_of(EVENT, name, time)
                for name, time in zip(self._names, times, strict=True)
            )
        if draft.others:
            others = {
                (domain, family, tag): (time, payload_of(domain, timer_name(family, tag), time))
                for (domain, family, tag), time in draft.others.items()
            }
        content = (
            no_values if values == no_values else values,
            no_times if times == no_times else times,
            no_payloads if of_timers == no_payloads else of_timers,
            draft.expiry,
            others,
        )
        record = Record(key, window, content)
        record.base = content
        return record


def _note(names: dict[bytes, tuple[bytes, int]], name: bytes, window: bytes, number: int) -> None:
    if len(names) >= _MOST_NAMES:
        names.clear()
    names[name] = window, number
