"""Where the state of slots goes when it is durable: a storage, and a folder of each host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkdrain.local_state.notes import SlotNote
from sparkdrain.local_state.slot_files import SlotFiles

if TYPE_CHECKING:
    from sparkdrain.checkpoints.paths import Paths


@dataclass(frozen=True, slots=True)
class CheckpointPlace:
    """Where the checkpoints of a job go.

    Attributes:
        state_dir: the folder of each host that keeps published files; empty if none does.
    """

    paths: Paths
    epoch: int
    state_dir: str = ""

    def slot_files(self, level: int, slot: int) -> SlotFiles | None:
        """This host's folder, as one slot uses it; None if the job has no such folder."""
        if not self.state_dir:
            return None
        note = SlotNote(self.paths.job_name, self.paths.folder, level, slot)
        return SlotFiles(self.state_dir, note)
