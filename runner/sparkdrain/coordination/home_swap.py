"""Slots change homes with each other until no exchange brings more of them to their files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, NamedTuple

from sparkdrain.coordination.slot_home import H

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_NOBODY: Final = -1


class _Edge(NamedTuple):
    """A way from one node to another; costs are negative where something is won.

    Attributes:
        cost: what is lost on this way.
        slot: the slot that takes it, or ``_NOBODY``.
    """

    cost: int
    slot: int


_FREE: Final = _Edge(0, _NOBODY)


class HomeSwap(Generic[H]):
    """An even spread on its way to the best one.

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
