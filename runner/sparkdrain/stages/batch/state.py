"""Where a slot of a batch job keeps state: of keys that are at work, and of panes."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from sparkdrain.graph.plan import TransformId
from sparkdrain.graph.state_ids import transform_state_id
from sparkdrain.harness.harness import StateTerms
from timers_state import Overlay, RoundStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sparkdrain.graph.plan import Plan


class SlotState:
    """State and timers in memory up to a budget, then on the slot's disk.

    Args:
        memory_bytes: the slot's memory. State has a third: to write it out takes three times its
            memory.
        scratch: where files go; asked for at the first use.
    """

    def __init__(self, plan: Plan, memory_bytes: int, scratch: Callable[[], Path]) -> None:
        self.plan = plan
        self._memory_bytes = memory_bytes
        self.scratch = scratch
        self._overlay: Overlay | None = None
        self._overlays: list[Overlay] = []

    @property
    def overlay(self) -> Overlay:
        """The state of all DoFns of the slot."""
        if self._overlay is None:
            self._overlay = self.more("state")
        return self._overlay

    def more(self, name: str) -> Overlay:
        """State of something else in the slot; it has rounds of its own."""
        store = RoundStore(self.scratch() / f"{name}-{uuid.uuid4().hex}")
        overlay = Overlay(store, self._memory_bytes // 3)
        self._overlays.append(overlay)
        return overlay

    def terms(self, transform: str) -> StateTerms:
        """Where one stateful DoFn has its state.

        No window expires: a key has nothing left when its turn is over.
        """
        return StateTerms(self.overlay, transform_state_id(self.plan, TransformId(transform)), None)

    def close(self) -> None:
        """Give disk space back."""
        for overlay in self._overlays:
            overlay.close()
