"""What every kind of grouping does alike: blocks come in, due timers come out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from sparkdrain.panes.arrivals import BlockSorter
from sparkdrain.panes.grouping import Grouping
from sparkdrain.panes.round_blocks import RoundBlocks
from sparkdrain.shuffle.keys import key_codec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkdrain.panes.grouping import GroupingTerms, PaneBudget
    from timers_state import Domain, Timer


class RoundGrouping(Grouping):
    """The part of a ``Grouping`` that does not depend on when panes fire."""

    def __init__(self, terms: GroupingTerms) -> None:
        _, self._decode_key = key_codec(terms.key_coder)
        self._overlay = terms.overlay
        self._state_id = terms.state_id
        self._blocks = RoundBlocks(terms.memory_bytes, terms.scratch)
        self._arrivals = BlockSorter(terms.overlay.groups, terms.memory_bytes)
        self._dropped = 0
        self.dropped = 0

    @property
    @override
    def spilled_bytes(self) -> int:
        return self._blocks.spilled_bytes

    @override
    def take(self, payload: memoryview) -> None:
        self._blocks.add(payload)

    @override
    def commit(self) -> None:
        self._dropped = self.dropped

    @override
    def rollback(self) -> None:
        self.dropped = self._dropped
        self._blocks.clear()

    def _first(self, domain: Domain) -> int | None:
        """The time of the earliest timer."""
        return self._overlay.first_time(self._state_id, domain)

    def _due(self, domain: Domain, up_to: int, budget: PaneBudget) -> Iterator[tuple[bytes, Timer]]:
        """Timers taken out one by one while the budget lasts; each with its key.

        They are in time order within a key. Keys come in the order of their first timers, each one
        with all that is due: what the store has of a key is read once.
        """
        overlay, state_id = self._overlay, self._state_id
        while not budget.is_spent():
            key = overlay.next_due(state_id, domain, up_to)
            if key is None:
                return
            scope = overlay.scope(state_id, key)
            while (timer := scope.timers(domain).pop_due(up_to)) is not None:
                budget.spend(1)
                yield key, timer
                if budget.is_spent() or not scope.active:  # forgotten, or written to make room
                    break
