"""A slot's part in checkpoints: versions of its state, kept and copied in the background."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from timers_state import StateError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sparkdrain.checkpoints.upload import Uploaded, Uploader


class SlotUploads:
    """Snapshots and uploads of one slot of one level.

    Args:
        uploader: copies files, and removes versions that it has copied.
    """

    def __init__(self, uploader: Uploader, directory: Path) -> None:
        self._uploader = uploader
        self._directory = directory
        self._number: int | None = None

    def begin(self, number: int, snapshot: Callable[[Path], None]) -> None:
        """Keep the state as it is, and start to copy it; again for the same number: nothing."""
        if self._number == number:
            return
        self._number = number
        version = self._directory / str(number)
        try:
            version.parent.mkdir(parents=True, exist_ok=True)
            snapshot(version)
        except (StateError, OSError) as error:
            # A disk is full, perhaps. That is the end of this checkpoint, not of the round.
            shutil.rmtree(version, ignore_errors=True)
            self._uploader.fail(number, str(error))
        else:
            self._uploader.begin(number, version)

    def ended(self, seconds: float = 0.0) -> Uploaded | None:
        """How the copying that was begun last has ended; nothing while it goes on.

        Args:
            seconds: how long to wait for its end.
        """
        self._uploader.await_end(seconds)
        return self._uploader.poll()

    def published(self, number: int) -> None:
        """Checkpoint ``number`` is the newest one now."""
        self._uploader.published(number)

    def close(self) -> None:
        """Stop copying."""
        self._uploader.close()
