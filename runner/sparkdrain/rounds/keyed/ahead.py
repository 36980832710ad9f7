"""Keys of a round come into memory some at a time, before their turns."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from timers_state import Overlay

# The more there are, the closer they are to each other in the store. How much memory they may take
# is up to the overlay.
_MOST: Final = 4096


def groups_in_memory(
    table: dict[bytes, Any], overlay: Overlay, state_ids: Sequence[int]
) -> Iterable[tuple[bytes, Any]]:
    """What a table has, key by key; records of the keys are read before.

    Args:
        table: by encoded key.
        overlay: the slot's state.
        state_ids: the states that keys will be looked for in; at least one.
    """
    if any(map(overlay.has_to_prefetch, state_ids)):
        return _read_ahead(table, overlay, state_ids)
    return table.items()


def _read_ahead(
    table: dict[bytes, Any], overlay: Overlay, state_ids: Sequence[int]
) -> Iterator[tuple[bytes, Any]]:
    keys, groups = list(table), iter(table.items())
    at = 0
    while at < len(keys):
        next_ones = keys[at : at + _MOST]
        count = min(overlay.prefetch(state_id, next_ones) for state_id in state_ids)
        yield from islice(groups, count)
        at += count
