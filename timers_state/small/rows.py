"""The rows of records: what differs from the store, as a batch."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final

from timers_state.keys import (
    EVENT,
    EXPIRY,
    Domain,
    Family,
    cell_name,
    encode_i64,
    escape_again,
    owners_in_time,
    state_prefix,
    time_row,
    timer_name,
)
from timers_state.small.kinds import SMALL_CELLS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from timers_state.small.record import Content, Layout, Others, Record
    from timers_state.store.store import Batch, Store

_EXPIRY_NAME = timer_name(b"", b"")
_NOT_SET: Final[tuple[int | None, bytes]] = None, b""
_PLACE = itemgetter(0)
_DOMAINS = {domain: bytes((domain,)) for domain in Domain}


class RecordRows:
    """Adds the rows of records of one state to batches.

    Beside the user's code, this is what each change costs that is in a checkpoint or does not fit
    into memory: what records have in common is made once, and each key is encoded once.
    """

    def __init__(self, state_id: int, layout: Layout) -> None:
        self._state = state_id
        self._cells = state_prefix(Family.CELLS, state_id)
        self._tags = state_prefix(Family.TAGS, state_id)
        self._values = [(tag, kind.KIND, SMALL_CELLS.get(kind)) for kind, tag in layout.values]
        self._families = [timer_name(family, b"") for family in layout.families]
        self._empty = layout.empty

    def in_order(self, records: list[Record]) -> list[tuple[bytes, Record]]:
        """Records with their places in the store, in the order in which it takes them fastest."""
        places = owners_in_time([record.key for record in records])
        return sorted(zip(places, records, strict=True), key=_PLACE)

    def add(
        self,
        records: Iterable[tuple[bytes, Record]],
        batch: Batch,
        store: Store,
        *,
        committed: bool,
    ) -> list[tuple[Record, Content]]:
        """Adds what it takes for the store to have records as they are.

        Args:
            records: some that may differ from the store, ``in_order``.
            batch: will be written; ``base`` of the records is for who does that.
            store: what it will be written to.
            committed: as they were when the round began.

        Returns:
            All of them, and what the store will have then.
        """
        added = []
        empty, cells, kinds, put = self._empty, self._cells, self._values, batch.put
        for place, record in records:
            content = record.committed() if committed else record.content()
            base, window = record.base or empty, record.window
            old_values, old_times, old_payloads, old_expiry, old_others = base
            values, times, payloads, expiry, others = content
            if values is not old_values:
                for (tag, kind, small), before, after in zip(
                    kinds, old_values, values, strict=True
                ):
                    if before == after:
                        continue
                    row = cells + place + cell_name(window, tag, kind)
                    if small is not None:
                        small.write(row, before, after, batch, store)
                    elif after is None:
                        batch.delete(row)
                    else:
                        put(row, after)
            if times is not old_times or payloads is not old_payloads:
                self._add_timers(place, window, base, content, batch)
            if expiry != old_expiry:
                name = _EXPIRY_NAME
                self._add_timer(place, window, EXPIRY, name, old_expiry, expiry, b"", batch)
            if others is not old_others:
                self._add_others(place, window, old_others, others, batch)
            added.append((record, content))
        return added

    def _add_timers(
        self, place: bytes, window: bytes, base: Content, content: Content, batch: Batch
    ) -> None:
        (_, *known, _, _), (_, *now, _, _) = base, content
        for name, before, was_with, after, payload in zip(
            self._families, *known, *now, strict=True
        ):
            if before != after or was_with != payload:
                self._add_timer(place, window, EVENT, name, before, after, payload, batch)

    def _add_others(
        self, place: bytes, window: bytes, known: Others, others: Others, batch: Batch
    ) -> None:
        for name in {**known, **others}:
            domain, family, tag = name
            before, was_with = known.get(name, _NOT_SET)
            after, payload = others.get(name, _NOT_SET)
            if before != after or was_with != payload:
                timer = timer_name(family, tag)
                self._add_timer(place, window, domain, timer, before, after, payload, batch)

    def _add_timer(
        self,
        place: bytes,
        window: bytes,
        domain: Domain,
        name: bytes,
        before: int | None,
        after: int | None,
        payload: bytes,
        batch: Batch,
    ) -> None:
        in_place = place + escape_again(window)
        place_and_name = in_place + name
        tag_row = self._tags + in_place + _DOMAINS[domain] + name
        if before is not None:
            row = time_row(self._state, domain, before, place_and_name)
            if after is None:
                batch.delete_timer(tag_row, row)
                return
            batch.move_timer(row)  # the same row may be put again
        if after is not None:
            row = time_row(self._state, domain, after, place_and_name)
            batch.put_timer(tag_row, encode_i64(after), row, payload)
