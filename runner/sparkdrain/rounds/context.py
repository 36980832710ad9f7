"""What the parts of a slot are made with: where it is, what it may use, where its state is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkdrain.stages.shards.inputs import begins_in

if TYPE_CHECKING:
    from pathlib import Path

    from sparkdrain.graph.plan import Plan, Stage
    from sparkdrain.stages.shards.codings import Codings
    from sparkdrain.stages.shards.task_options import TaskOptions
    from timers_state import Overlay


@dataclass(frozen=True, slots=True)
class Context:
    """One slot of one level; it stays the same for the life of a job.

    Attributes:
        slots: how many slots each level has.
        directory: for what does not fit into memory.
    """

    plan: Plan
    level: int
    slot: int
    slots: int
    options: TaskOptions
    directory: Path
    codings: Codings
    overlay: Overlay

    @property
    def is_first(self) -> bool:
        """Whether this is the slot that tells what all of them know."""
        return self.slot == 0

    def is_first_for(self, stage: Stage) -> bool:
        """Whether this is the slot in which a stage begins that has no input."""
        return begins_in(self.plan.levels[self.level], stage, self.slots) == self.slot
