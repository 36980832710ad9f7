"""Reading a store from outside: every row, taken apart, with the size of its value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from timers_state.keys import (
    Family,
    cell_of_row,
    decode_i64,
    owner_of_row,
    prefix_end,
    state_prefix,
    timer_of_owned_tag_row,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timers_state.store.store import Store


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of state.

    Attributes:
        tag: the cell's tag, or the timer's family.
        kind: the kind of cell in lower case, or the domain of a timer, as "event timer".
        part: which part of the cell the row is (key of a map, number of a segment, ...), or the
            timer's dynamic tag.
        size: bytes of the value; of a timer, of its row in the tag index.
        time: when the timer fires, None for a cell.
    """

    state_id: int
    key_group: int
    key: bytes
    window: bytes
    tag: bytes
    kind: str
    part: bytes
    size: int
    time: int | None = None


def entries(store: Store, state_id: int | None = None) -> Iterator[Entry]:
    """Every row of cells, then every timer once, in key order; nothing is changed.

    Args:
        store: an open store; ``open_read_only`` opens one that is in use, as it was last flushed.
        state_id: only this state.

    Raises:
        MalformedRow: a row follows no layout.
    """
    for family in (Family.CELLS, Family.TAGS):
        prefix = bytes((family,)) if state_id is None else state_prefix(family, state_id)
        for row, value in store.iterate(prefix, prefix_end(prefix)):
            owner, length = owner_of_row(row)
            if family is Family.CELLS:
                window, tag, cell, part = cell_of_row(row, length)
                kind, time = cell.name.lower().replace("_", " "), None
            else:
                window, domain, tag, part = timer_of_owned_tag_row(row, length)
                kind, time = f"{domain.name.lower()} timer", decode_i64(value)
            yield Entry(*owner, window, tag, kind, part, len(value), time)
