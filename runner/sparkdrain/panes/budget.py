"""How much may be fired before the round goes on without the rest."""

from __future__ import annotations

from typing import Protocol

from typing_extensions import override


class PaneBudget(Protocol):
    """What a round may still fire; one budget may be for all stages of a slot."""

    def spend(self) -> bool:
        """Whether one more timer may fire; it is counted then."""

    def count(self, pairs: int) -> None:
        """So many keys came out for a timer that they share."""


class Unlimited(PaneBudget):
    """No budget at all."""

    @override
    def spend(self) -> bool:
        return True

    @override
    def count(self, pairs: int) -> None:
        pass
