"""Keys of a round come into memory some at a time, before their turns."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sparkdrain.rounds.keyed.due import Stateful
    from timers_state import Overlay

# The more there are, the closer they are to each other in the store. How much memory they may take
# is up to the overlay.
_MOST: Final = 4096


def groups_in_memory(
    table: dict[bytes, Any], overlay: Overlay, stateful: Sequence[Stateful]
) -> Iterable[tuple[bytes, Any]]:
    """What a table has, key by key; what the DoFns' states have of keys is read before.

    Args:
        table: by encoded key.
        overlay: the slot's state.
        stateful: the DoFns.
    """
    if any(overlay.has_to_prefetch(one.state_id) for one in stateful):
        return _read_ahead(table, overlay, stateful)
    return table.items()


def _read_ahead(
    table: dict[bytes, Any], overlay: Overlay, stateful: Sequence[Stateful]
) -> Iterator[tuple[bytes, Any]]:
    keys, groups = list(table), iter(table.items())
    at = 0
    while at < len(keys):
        next_ones = keys[at : at + _MOST]
        count = min(
            overlay.prefetch(one.state_id, next_ones, cells=one.reads_cells, timers=one.has_timers)
            for one in stateful
        )
        yield from islice(groups, count)
        at += count
