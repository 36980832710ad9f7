"""How much may be fired before the round goes on without the rest."""

from __future__ import annotations

from typing import Protocol


class PaneBudget(Protocol):
    """What a round may still fire; one budget may be for all stages of a slot."""

    def is_spent(self) -> bool:
        """Whether no more timer may fire."""

    def spend(self, elements: int) -> None:
        """Count a timer that fires, or the keys that came out for a timer which they share."""
