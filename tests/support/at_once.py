"""Uploads that take no time, or some rounds, so that a run with checkpoints can be repeated."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from typing_extensions import override

from sparkdrain.checkpoints.upload import Uploader

if TYPE_CHECKING:
    from pathlib import Path

    from sparkdrain.checkpoints.upload import Uploaded


class AtOnce(Uploader):
    """Has uploaded when it has begun; to be put in place of ``service.Uploader``."""

    def begin(self, number: int, snapshot: Path) -> None:
        super().begin(number, snapshot)
        while self.poll() is None:
            time.sleep(0.0001)


class RoundsLater(AtOnce):
    """Has uploaded when it has begun, and says so two rounds later: a slot asks in each."""

    _asked = 0

    @override
    def begin(self, number: int, snapshot: Path) -> None:
        self._asked = 3  # so that `begin` of the other one sees its end
        super().begin(number, snapshot)
        self._asked = 0

    @override
    def poll(self) -> Uploaded | None:
        self._asked += 1
        return super().poll() if self._asked > 2 else None
