"""The rows of records: what differs from the store, as a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timers_state.keys import (
    Domain,
    Family,
    cell_prefix,
    encode_i64,
    key_group,
    owner_in_time,
    owner_prefix,
    tag_prefix,
    time_row,
    timer_name,
    window_prefix,
)

if TYPE_CHECKING:
    from timers_state.record import Content, Layout, Record
    from timers_state.store import Batch

_EXPIRY_NAME = timer_name(b"", b"")


class RecordRows:
    """Adds the rows of records of one state to a batch."""

    __slots__ = ("_empty", "_families", "_groups", "_state", "_values")

    def __init__(self, state_id: int, groups: int, layout: Layout) -> None:
        self._state = state_id
        self._groups = groups
        self._values = [(kind.KIND, tag) for kind, tag in layout.values]
        self._families = [timer_name(family, b"") for family in layout.families]
        self._empty = layout.empty

    def write(self, record: Record, content: Content, batch: Batch) -> bool:
        """Adds what it takes for the store to have ``content``; False if that is nothing."""
        base = record.base
        if base == content:
            return False
        known = self._empty if base is None else base
        group = key_group(record.key, self._groups)
        if known[0] != content[0]:
            self._write_values(record, group, known, content, batch)
        before = zip(known[1], known[2], strict=True)
        after = zip(content[1], content[2], strict=True)
        timers = list(zip(self._families, before, after, strict=True))
        self._write_timers(record, group, Domain.EVENT, timers, batch)
        if known[3] != content[3]:
            expiry = [(_EXPIRY_NAME, (known[3], b""), (content[3], b""))]
            self._write_timers(record, group, Domain.EXPIRY, expiry, batch)
        record.base = None if content == self._empty else content
        return True

    def _write_values(
        self, record: Record, group: int, known: Content, content: Content, batch: Batch
    ) -> None:
        owner = owner_prefix(Family.CELLS, self._state, group, record.key)
        for (kind, tag), before, after in zip(self._values, known[0], content[0], strict=True):
            if before != after:
                row = cell_prefix(owner, record.window, tag, kind)
                if after is None:
                    batch.delete(row)
                else:
                    batch.put(row, after)

    def _write_timers(
        self,
        record: Record,
        group: int,
        domain: Domain,
        timers: list[tuple[bytes, tuple[int | None, bytes], tuple[int | None, bytes]]],
        batch: Batch,
    ) -> None:
        state = self._state
        place = window_prefix(owner_in_time(group, record.key), record.window)
        tags = tag_prefix(
            owner_prefix(Family.TAGS, state, group, record.key), record.window, domain
        )
        for name, was, is_ in timers:
            if was == is_:
                continue
            (before, _), (after, payload) = was, is_
            if before is not None:
                row = time_row(state, domain, before, place + name)
                if after is None:
                    batch.delete_timer(tags + name, row)
                else:
                    batch.move_timer(row)  # the same row may be put again
            if after is not None:
                row = time_row(state, domain, after, place + name)
                batch.put_timer(tags + name, encode_i64(after), row, payload)
