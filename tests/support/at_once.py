"""Uploads that take no time, so that a run with checkpoints can be repeated."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sparkdrain.checkpoints.upload import Uploader

if TYPE_CHECKING:
    from pathlib import Path


class AtOnce(Uploader):
    """Has uploaded when it has begun; to be put in place of ``open_slot.Uploader``."""

    def begin(self, number: int, snapshot: Path) -> None:
        super().begin(number, snapshot)
        while self.poll() is None:
            time.sleep(0.0001)
