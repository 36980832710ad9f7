"""Where the state of a slot goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkdrain.checkpoints.paths import Stamp, file_name

if TYPE_CHECKING:
    from sparkdrain.checkpoints.paths import Paths
    from sparkdrain.checkpoints.storage import Storage


@dataclass(frozen=True, slots=True)
class Destination:
    """The place in storage for the state of one slot of one level."""

    storage: Storage
    paths: Paths
    epoch: int
    level: int
    slot: int

    def file_name(self, number: int, digest: str) -> str:
        """What a file with this digest is called if it comes for checkpoint ``number``."""
        return file_name(Stamp(self.epoch, number), self.level, self.slot, digest)
