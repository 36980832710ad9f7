"""Which home has which slot: a pure function, which knows nothing of Spark or of any store."""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Generic

from sparkdrain.coordination.home_swap import HomeSwap
from sparkdrain.coordination.slot_home import H

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sparkdrain.coordination.slot_home import SlotHome


def assign(
    slots: Iterable[int],
    last: Mapping[int, H],
    homes: Iterable[H],
    held: Mapping[int, Mapping[str, int]] | None = None,
) -> dict[int, H]:
    """A home for each slot; none if there are no homes. The order of arguments says nothing.

    No home has more than one slot more than another. Within that, as many slots as possible stay
    where they were last. Within that, as many bytes of files as possible lie where their slots are.
    Which slots stay, and which homes have one slot more, is chosen for both.

    Args:
        slots: their numbers.
        last: where each of them was last, if that is known. Its home may be gone.
        homes: those that are alive.
        held: for each slot, how many bytes of its files each location has. Without an entry, a
            slot's files are where it was last, and count less than any byte that is known of.
    """
    alive = sorted(set(homes))
    if not alive:
        return {}
    numbers = sorted(set(slots))
    byte = len(numbers) + 1
    worth = {slot: _worth(last.get(slot), (held or {}).get(slot, {}), byte) for slot in numbers}
    filling = _Filling(numbers, last, alive, worth)
    filling.stay()
    filling.have_one_more()
    filling.fill()
    if not held:  # then no other spread is better
        return dict(sorted(filling.placed.items()))
    return HomeSwap(filling.placed, alive, last, worth).best()


class _Filling(Generic[H]):
    """An assignment on its way.

    Attributes:
        placed: the slots that have a home.
    """

    def __init__(
        self,
        slots: Sequence[int],
        last: Mapping[int, H],
        homes: Sequence[H],
        worth: Mapping[int, Mapping[str, int]],
    ) -> None:
        each, self._more = divmod(len(slots), len(homes))
        self._room = dict.fromkeys(homes, each)
        self._last = {slot: last[slot] for slot in slots if slot in last}
        # Slots without a home, and where their files are, first where most are.
        self._left = {slot: list(worth[slot]) for slot in slots}
        self.placed: dict[int, H] = {}

    def stay(self) -> None:
        """Slots stay where they were, as far as the smaller share goes."""
        for slot, home in self._last.items():
            if self._room.get(home):
                self._place(slot, home)

    def have_one_more(self) -> None:
        """Choose the homes that have one slot more than others.

        First those whose slots stay for it. Of these, and of the others, first those whose location
        has too little room for the slots that have their files there.
        """
        plain = dict.fromkeys(self._room)
        could = {
            home: slot
            for slot, home in reversed(self._last.items())
            if slot in self._left and home in plain
        }
        for home in self._by_need(could):
            self._have_more(home)
            self._place(could[home], home)
            del plain[home]
        for home in self._by_need(plain, least=1):
            self._have_more(home)
            del plain[home]
        for home in list(plain)[: self._more]:
            self._have_more(home)

    def fill(self) -> None:
        """All slots without a home get one: where most of their files are, else anywhere."""
        free: dict[str, list[tuple[int, H]]] = defaultdict(list)
        load = Counter(self.placed.values())
        for home, room in self._room.items():
            if room:
                heapq.heappush(free[home.location], (load[home], home))
        for rank in range(max(map(len, self._left.values()), default=0)):
            for slot, locations in list(self._left.items()):
                if rank < len(locations) and free.get(locations[rank]):
                    self._place_where_least_is(slot, free[locations[rank]])
        everywhere = [one for there in free.values() for one in there]
        heapq.heapify(everywhere)
        for slot in list(self._left):
            self._place_where_least_is(slot, everywhere)

    def _place(self, slot: int, home: H) -> None:
        self.placed[slot] = home
        self._room[home] -= 1
        del self._left[slot]

    def _place_where_least_is(self, slot: int, free: list[tuple[int, H]]) -> None:
        """Place a slot in the first of the homes with room, a queue by their number of slots."""
        load, home = free[0]
        self._place(slot, home)
        if self._room[home]:
            heapq.heapreplace(free, (load + 1, home))
        else:
            heapq.heappop(free)

    def _have_more(self, home: H) -> None:
        self._room[home] += 1
        self._more -= 1

    def _by_need(self, homes: Iterable[H], least: float = -math.inf) -> list[H]:
        """As many of these homes as can have one slot more, in the order of need.

        Args:
            homes: to choose from.
            least: how many slots too few a location must have room for.
        """
        short = Counter(locations[0] for locations in self._left.values() if locations)
        for home, room in self._room.items():
            short[home.location] -= room
        there: dict[str, list[H]] = defaultdict(list)
        for home in sorted(homes, reverse=True):
            there[home.location].append(home)
        queue = [(-short[location], location) for location in there]
        heapq.heapify(queue)
        chosen: list[H] = []
        while queue and len(chosen) < self._more and -queue[0][0] >= least:
            negative, location = queue[0]
            chosen.append(there[location].pop())
            if there[location]:
                heapq.heapreplace(queue, (negative + 1, location))
            else:
                heapq.heappop(queue)
        return chosen


def _worth(last: SlotHome | None, held: Mapping[str, int], byte: int) -> dict[str, int]:
    """What each location is worth to a slot, the best first.

    Of locations with as many bytes, the one where the slot was last is better.

    Args:
        last: where the slot was.
        held: bytes of its files, by location.
        byte: what one is worth; more than all slots where they were last.
    """
    before = None if last is None else last.location
    found = {one: byte * size + (one == before) for one, size in held.items() if size > 0}
    if found:
        return dict(sorted(found.items(), key=lambda one: (-one[1], one[0])))
    return {} if before is None else {before: 1}
