"""Which homes keep copies of which slots' files: a pure function."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sparkdrain.coordination.assignment import SlotHome


def copies(homes: Mapping[int, SlotHome], number: int) -> dict[int, tuple[int, ...]]:
    """The slots of other locations whose files the home of a slot is to have as well, by slot.

    Each slot has that many copies, in locations that differ from its own and from each other, or
    one in each location if there are fewer. The slots of one location have theirs all over the
    others, and the slots of a location share the work. A location asks for a file once.

    Args:
        homes: where each slot is, by slot.
        number: how many copies a slot is to have.
    """
    there: dict[str, list[int]] = defaultdict(list)
    for slot in sorted(homes):
        there[homes[slot].location].append(slot)
    locations = sorted(there)
    kept: dict[int, list[int]] = {slot: [] for slot in sorted(homes)}
    for at, location in enumerate(locations):
        others = locations[at + 1 :] + locations[:at]
        for rank, slot in enumerate(there[location]):
            first = rank % max(1, len(others))
            for other in (others[first:] + others[:first])[:number]:
                keepers = there[other]
                kept[keepers[rank % len(keepers)]].append(slot)
    return {slot: tuple(sorted(of_others)) for slot, of_others in kept.items()}
