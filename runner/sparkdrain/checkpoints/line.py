"""Which checkpoint a driver's next one follows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkdrain.checkpoints.paths import Place, Stamp


@dataclass(slots=True)
class CheckpointLine:
    """A driver's end of the line of a job's checkpoints.

    Attributes:
        last: the checkpoint that the next one follows: which the driver published last, or found
            when it took the job; None if there was none.
        tried: manifests that the driver has tried to publish behind ``last``. One that it was told
            is not there may be there.
        is_marked: whether a checkpoint was published in the folder before the driver claimed it.
    """

    last: Place | None = None
    tried: dict[Stamp, bytes] = field(default_factory=dict)
    is_marked: bool = False

    @property
    def position(self) -> int:
        """Where the next checkpoint is to be."""
        return 1 + (0 if self.last is None else self.last.position)

    def follow(self, last: Place | None) -> None:
        """Go on behind that checkpoint."""
        self.last = last
        self.tried.clear()
