"""Who has which slot: a pure function, which knows nothing of Spark or of any store."""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class SlotHome(Protocol):
    """What can have slots, such as an executor. Homes are hashable and have an order."""

    @property
    def location(self) -> str:
        """Where it is; homes of one location can use each other's files."""

    def __lt__(self, other: Any, /) -> bool:
        """The order in which homes are chosen that are equally good."""


H = TypeVar("H", bound=SlotHome)


def assign(
    slots: Iterable[int],
    last: Mapping[int, H],
    homes: Iterable[H],
    held: Mapping[int, Mapping[str, int]] | None = None,
) -> dict[int, H]:
    """A home for each slot; none if there are no homes. The order of arguments says nothing.

    No home has more than one slot more than another. Within that, as many slots as possible stay
    where they were last. Within that, as many of the others as possible go to a location that has
    their files; which homes have one slot more is chosen for both.

    Args:
        slots: their numbers.
        last: where each of them was last, if that is known. Its home may be gone.
        homes: those that are alive.
        held: for each slot, how many bytes of its files each location has. Without an entry, a
            slot's files are where it was last. A slot with files in more than one location goes to
            the one with the most bytes that has room.
    """
    alive = sorted(set(homes))
    if not alive:
        return {}
    filling = _Filling(sorted(set(slots)), last, alive, held or {})
    filling.stay()
    filling.have_one_more()
    filling.fill()
    return dict(sorted(filling.placed.items()))


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
        held: Mapping[int, Mapping[str, int]],
    ) -> None:
        each, self._more = divmod(len(slots), len(homes))
        self._room = dict.fromkeys(homes, each)
        self._last = {slot: last[slot] for slot in slots if slot in last}
        # Slots without a home, and where their files are, first where most are.
        self._left = {slot: _locations(last.get(slot), held.get(slot, {})) for slot in slots}
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
        """Of the homes with room, a queue by their number of slots, take the first."""
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


def _locations(last: SlotHome | None, held: Mapping[str, int]) -> list[str]:
    """Where a slot's files are, and first where most are."""
    before = None if last is None else last.location
    found = {location: size for location, size in held.items() if size > 0}
    if found:
        return sorted(found, key=lambda one: (-found[one], one != before, one))
    return [] if before is None else [before]
