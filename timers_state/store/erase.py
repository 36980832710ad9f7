"""Removing all rows of a key, or of a state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timers_state.keys import (
    Family,
    decode_i64,
    key_group,
    owner_prefix,
    place_of_owner,
    prefix_end,
    state_prefix,
    tag_owner,
    time_row,
    timer_name,
    timer_of_owned_tag_row,
    window_prefix,
)
from timers_state.store.store import delete_rows

if TYPE_CHECKING:
    from timers_state.store.store import Batch, Store


def erase_state(batch: Batch, state_id: int) -> None:
    """Adds to ``batch`` the removal of every row of a state; nothing is read."""
    for family in (Family.CELLS, Family.TIMES, Family.TAGS):
        prefix = state_prefix(family, state_id)
        batch.delete_range(prefix, prefix_end(prefix))


def erase_key(store: Store, batch: Batch, state_id: int, key: bytes) -> None:
    """Adds to ``batch`` the removal of every row that ``store`` has of a key in one state.

    Reads one row per timer that is set; cells are not read.
    """
    cells = owner_prefix(Family.CELLS, state_id, key_group(key), key)
    tags = tag_owner(cells)
    for row, time in store.iterate(tags, prefix_end(tags)):
        window, domain, family, tag = timer_of_owned_tag_row(row, len(tags))
        place = window_prefix(place_of_owner(cells), window)
        batch.delete(time_row(state_id, domain, decode_i64(time), place + timer_name(family, tag)))
    delete_rows(store, batch, tags, prefix_end(tags))
    delete_rows(store, batch, cells, prefix_end(cells))
