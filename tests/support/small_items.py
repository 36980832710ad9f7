"""Bags and sets of records, as a turn leaves them."""

from __future__ import annotations

from timers_state.cells.cell import ITEM_BYTES


def bag_with(value, added):
    """What a record has of a bag once strings were added to ``value``."""
    size, items = value or (0, [])
    return size + sum(ITEM_BYTES + len(item) for item in added), [*items, *added]


def set_with(value, added):
    """The same of a set."""
    size, items = value or (0, {})
    new = [item for item in dict.fromkeys(added) if item not in items]
    size += sum(ITEM_BYTES + 48 + len(item) for item in new)
    return size, {**items, **dict.fromkeys(new, b"")}
