"""What the parts of a slot are made with: where it is, what it may use, where its state is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from sparkdrain.graph.plan import Plan
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
