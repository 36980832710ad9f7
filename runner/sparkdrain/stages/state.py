"""Where stateful DoFns of a batch job keep state while their keys are at work."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from sparkdrain.graph.plan import TransformId
from sparkdrain.graph.state_ids import transform_state_id
from sparkdrain.harness.keyed_state import KeyedState
from sparkdrain.keyed.stateful import stateful_behind
from timers_state import Overlay, RoundStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sparkdrain.graph.plan import Edge, Plan
    from sparkdrain.keyed.stateful import Stateful


class SlotState:
    """State and timers in memory up to a budget, then on the slot's disk.

    Args:
        plan: of the job.
        level: of the slot.
        memory_bytes: of the slot. State has a third: to write it out takes three times its memory.
        scratch: where files go; asked for at the first use.
    """

    def __init__(
        self, plan: Plan, level: int, memory_bytes: int, scratch: Callable[[], Path]
    ) -> None:
        self._plan = plan
        self._level = level
        self._memory_bytes = memory_bytes
        self._scratch = scratch
        self._overlay: Overlay | None = None

    @property
    def overlay(self) -> Overlay:
        """The state of all DoFns of the slot."""
        if self._overlay is None:
            store = RoundStore(self._scratch() / f"state-{uuid.uuid4().hex}")
            self._overlay = Overlay(store, self._memory_bytes // 3)
        return self._overlay

    def behind(self, edge: Edge) -> list[Stateful]:
        """The DoFns with state or timers that read ``edge``."""
        (stage,) = (
            stage
            for stage in self._plan.levels[self._level]
            if any(id_ == edge.id for _, id_ in stage.sources)
        )
        return stateful_behind(self._plan, stage, edge)

    def make(self, transform_id: str, window_coder: Any) -> KeyedState:
        """What one stateful DoFn sees of its state; see ``harness.factory.MakeState``.

        No window expires: a key has nothing left when its turn is over.
        """
        state_id = transform_state_id(self._plan, TransformId(transform_id))
        return KeyedState(transform_id, state_id, window_coder, self.overlay, None)

    def close(self) -> None:
        """Give disk space back."""
        if self._overlay is not None:
            self._overlay.close()
