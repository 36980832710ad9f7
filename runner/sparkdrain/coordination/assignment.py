"""Which home has which slot: a pure function, which knows nothing of Spark or of any store."""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_NOBODY: Final = -1


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
    return _HomeSwap(filling.placed, alive, last, worth).best()


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


class _Edge(NamedTuple):
    """A way from one node to another; costs are negative where something is won.

    Attributes:
        cost: what is lost on this way.
        slot: the slot that takes it, or ``_NOBODY``.
    """

    cost: int
    slot: int


_FREE: Final = _Edge(0, _NOBODY)


class _HomeSwap(Generic[H]):
    """An even spread on its way to the best one: slots change homes with each other.

    The nodes of a graph are homes, locations, a node for anywhere, and a node for the right to one
    slot more than the smaller share. A ring of this graph is an exchange: each home on it gives one
    slot away and gets another, or hands on its right to one more. A spread of which no ring costs
    less than nothing is the best one (Klein's method for flows of least cost).

    Args:
        placed: a home for each slot, evenly.
        homes: all of them, in their order.
        last: where slots were.
        worth: for each slot, what each location is worth. To stay where it was is worth more than
            all of that together.
    """

    def __init__(
        self,
        placed: Mapping[int, H],
        homes: Sequence[H],
        last: Mapping[int, H],
        worth: Mapping[int, Mapping[str, int]],
    ) -> None:
        self._homes = homes
        self._last = last
        self._worth = worth
        self._stay = 1 + sum(max(each.values(), default=0) for each in worth.values())
        self._slots: list[set[int]] = [set() for _ in homes]
        self._home_nodes = {home: node for node, home in enumerate(homes)}
        for slot, home in placed.items():
            self._slots[self._home_nodes[home]].add(slot)
        self._least = min(map(len, self._slots))
        locations = sorted({home.location for home in homes})
        self._location_nodes = {
            location: node for node, location in enumerate(locations, len(homes))
        }
        self._anywhere = len(homes) + len(locations)
        self._one_more = self._anywhere + 1
        # By node, and by the node that an edge leads to.
        self._edges: list[dict[int, _Edge]] = [{} for _ in range(self._one_more + 1)]
        self._edges[self._anywhere] = dict.fromkeys(self._location_nodes.values(), _FREE)
        for home, node in self._home_nodes.items():
            self._edges[self._location_nodes[home.location]][node] = _FREE
            self._look(node)
        # As the last search has left them: most are still right.
        self._costs = [0] * len(self._edges)

    def best(self) -> dict[int, H]:
        """A spread that no other even one is worth more than."""
        while rings := self._rings():
            for ring in rings:
                self._change(ring)
        homes = zip(self._homes, self._slots, strict=True)
        return dict(sorted((slot, home) for home, slots in homes for slot in slots))

    def _look(self, node: int) -> None:
        """Find the cheapest ways from a home again: it has got slots, or has given some away."""
        slots, home, edges = self._slots[node], self._homes[node], self._edges
        edges[node] = {}
        for slot in sorted(slots):
            here = self._worth_at(slot, home)
            for to, there in self._ways(slot):
                edge = edges[node].get(to)
                if to != node and (edge is None or here - there < edge.cost):
                    edges[node][to] = _Edge(here - there, slot)
        edges[self._one_more].pop(node, None)
        one, other = (node, self._one_more) if len(slots) == self._least else (self._one_more, node)
        edges[one][other] = _FREE

    def _ways(self, slot: int) -> Iterator[tuple[int, int]]:
        """Where a slot could go, and what that is worth."""
        yield self._anywhere, 0
        for location, worth in self._worth.get(slot, {}).items():
            if location in self._location_nodes:
                yield self._location_nodes[location], worth
        last = self._last.get(slot)
        if last in self._home_nodes:
            yield self._home_nodes[last], self._worth_at(slot, last)

    def _worth_at(self, slot: int, home: H) -> int:
        worth = self._worth.get(slot, {}).get(home.location, 0)
        return worth + self._stay if home == self._last.get(slot) else worth

    def _rings(self) -> list[list[int]]:
        """Rings that cost less than nothing and share no node; none if there is none at all.

        The search is that of Bellman and Ford. A ring among the nodes from which others were
        reached last costs less than nothing.
        """
        costs, edges = self._costs, self._edges
        before = [_NOBODY] * len(costs)
        active: list[int] = list(range(len(costs)))
        while active:
            reached = {}
            for one in active:
                for other, edge in edges[one].items():
                    cost = costs[one] + edge.cost
                    if cost < costs[other]:
                        costs[other] = cost
                        before[other] = one
                        reached[other] = True
            if rings := _rings_among(before):
                return rings
            active = list(reached)
        return []

    def _change(self, ring: Sequence[int]) -> None:
        """Move the slots of a ring, which begins at a home."""
        moved = _NOBODY
        for one, other in zip(ring, [*ring[1:], ring[0]], strict=True):
            edge = self._edges[one][other]
            if edge.slot != _NOBODY:
                moved = edge.slot
                self._slots[one].remove(moved)
            if other < len(self._homes) and moved != _NOBODY:
                self._slots[other].add(moved)
                moved = _NOBODY
        for node in ring:
            if node < len(self._homes):
                self._look(node)


def _rings_among(before: Sequence[int]) -> list[list[int]]:
    """The rings that one comes to by going back again and again.

    Args:
        before: for each node, the node before it, or ``_NOBODY``.

    Returns:
        Each in the order of its edges, from its home with the smallest number on.
    """
    seen_from = [_NOBODY] * len(before)
    rings = []
    for start in range(len(before)):
        node = start
        while node != _NOBODY and seen_from[node] == _NOBODY:
            seen_from[node] = start
            node = before[node]
        if node != _NOBODY and seen_from[node] == start:
            ring = [node]
            while before[ring[-1]] != node:
                ring.append(before[ring[-1]])
            ring.reverse()
            first = ring.index(min(ring))
            rings.append(ring[first:] + ring[:first])
    return rings
