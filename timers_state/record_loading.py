"""Records of a key that the store has rows of."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from timers_state.cells.segment import decode_segment
from timers_state.keys import (
    CellRow,
    Domain,
    Family,
    Kind,
    decode_i64,
    decode_row,
    key_group,
    owner_in_time,
    owner_prefix,
    prefix_end,
    time_row,
    timer_name,
    timer_of_owned_tag_row,
    window_prefix,
)
from timers_state.record import LARGEST_BAG, Record
from timers_state.record_items import with_more

if TYPE_CHECKING:
    from timers_state.record import Content, Layout
    from timers_state.store import Store

_MOST_ROWS: Final = 64
"""A key with more rows than this is not looked at any further."""


def load_records(
    store: Store, state_id: int, key: bytes, groups: int, layout: Layout, empty: Content
) -> list[Record] | None:
    """The records of a key, one for each window; None if it has what records cannot hold.

    ``empty`` is what a record without content has; what is missing is just these objects.
    """
    loading = _Loading(key, layout, empty)
    group = key_group(key, groups)
    prefix = owner_prefix(Family.CELLS, state_id, group, key)
    cells = list(islice(store.iterate(prefix, prefix_end(prefix)), _MOST_ROWS + 1))
    prefix = owner_prefix(Family.TAGS, state_id, group, key)
    tags: list[tuple[bytes, bytes]] = []
    if layout.families or layout.expires:
        tags += islice(store.iterate(prefix, prefix_end(prefix)), _MOST_ROWS + 1)
    if len(cells) > _MOST_ROWS or len(tags) > _MOST_ROWS:
        return None
    if not all(loading.take_cell(row, value) for row, value in cells):
        return None
    if not all(loading.take_timer(row, time, len(prefix)) for row, time in tags):
        return None
    return loading.records(store, state_id, owner_in_time(group, key))


class _Loading:
    """What was found of a key, by window."""

    def __init__(self, key: bytes, layout: Layout, empty: Content) -> None:
        self._key = key
        self._empty = empty
        self._families = {family: number for number, family in enumerate(layout.families)}
        self._tags = {(kind.KIND, tag): n for n, (kind, tag) in enumerate(layout.values)}
        self._values: dict[bytes, dict[int, Any]] = {}
        self._times: dict[bytes, dict[int, int]] = {}
        self._expiries: dict[bytes, int] = {}

    def take_cell(self, row: bytes, value: bytes) -> bool:
        """Whether a record can hold the cell of a row."""
        cell = decode_row(row)
        assert isinstance(cell, CellRow)
        number = self._tags.get((cell.kind, cell.tag))
        if number is None:
            return False
        values = self._values.setdefault(cell.window, {})
        if cell.kind is Kind.BAG:
            items = values[number] = with_more(values.get(number), decode_segment(value))
            return items[0] <= LARGEST_BAG
        values[number] = value
        return True

    def take_timer(self, row: bytes, time: bytes, owner_length: int) -> bool:
        """Whether a record can hold the timer of a tag row."""
        window, domain, family, tag = timer_of_owned_tag_row(row, owner_length)
        if tag:
            return False
        if domain is Domain.EXPIRY and not family:
            self._expiries[window] = decode_i64(time)
            return True
        number = self._families.get(family)
        if number is None or domain is not Domain.EVENT:
            return False
        self._times.setdefault(window, {})[number] = decode_i64(time)
        return True

    def records(self, store: Store, state_id: int, owner: bytes) -> list[Record]:
        """What was found, with the payloads of timers."""
        windows = sorted({*self._values, *self._times, *self._expiries})
        return [self._record(store, state_id, owner, window) for window in windows]

    def _record(self, store: Store, state_id: int, owner: bytes, window: bytes) -> Record:
        values, times = self._values.get(window, {}), self._times.get(window, {})
        payloads = {}
        for number, time in times.items():
            family = next(f for f, n in self._families.items() if n == number)
            place = window_prefix(owner, window) + timer_name(family, b"")
            payloads[number] = store.get(time_row(state_id, Domain.EVENT, time, place)) or b""
        no_values, no_times, no_payloads, _ = self._empty
        content = (
            tuple(map(values.get, range(len(no_values)))) if values else no_values,
            tuple(map(times.get, range(len(no_times)))) if times else no_times,
            tuple(payloads.get(n, b"") for n in range(len(no_times)))
            if any(payloads.values())
            else no_payloads,
            self._expiries.get(window),
        )
        record = Record(self._key, window, content)
        record.base = content
        return record
