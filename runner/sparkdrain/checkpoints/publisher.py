"""Publishes checkpoints while the driver goes on."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkdrain.checkpoints.collect import collect
from sparkdrain.checkpoints.publish import publish
from sparkdrain.errors import CheckpointFailed, Fenced

if TYPE_CHECKING:
    from sparkdrain.checkpoints.lease import Lease
    from sparkdrain.checkpoints.manifest import Manifest
    from sparkdrain.checkpoints.paths import Place

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PublishResult:
    """How publishing a checkpoint has ended.

    Attributes:
        error: why it is not known to be the newest one; None if it is. ``Fenced`` if the job is not
            ours any more.
    """

    number: int
    error: Exception | None = None


class Publisher:
    """Publishes one checkpoint at a time in a thread, and removes old ones after it.

    Its storage should answer in time, see ``TimedStorage``: then so does this.

    Args:
        kept: how many checkpoints stay.
    """

    def __init__(self, lease: Lease, kept: int) -> None:
        self._lease = lease
        self._kept = kept
        self._needed: dict[Place, frozenset[str]] = {}
        self._begun: int | None = None
        self._ended: PublishResult | None = None
        self._thread: threading.Thread | None = None
        self._has_ended = threading.Event()

    def begin(self, manifest: Manifest) -> None:
        """Publish a checkpoint, as soon as what the last one left to be removed is.

        Raises:
            ValueError: the last one has not ended yet.
        """
        if self._begun is not None and self._ended is None:
            message = f"checkpoint {self._begun} is still being published"
            raise ValueError(message)
        self._begun, self._ended = manifest.number, None
        self._has_ended.clear()
        self._thread = threading.Thread(
            target=self._work, args=(manifest, self._thread), name="publish", daemon=True
        )
        self._thread.start()

    def poll(self) -> PublishResult | None:
        """How the last one has ended, again and again; None if it has not. Never blocks."""
        return self._ended

    def await_end(self, seconds: float) -> None:
        """Wait until the last one has ended, but no longer than that."""
        self._has_ended.wait(seconds)

    def wait(self, seconds: float) -> None:
        """Wait until nothing is left to be published or removed, but no longer than that."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _work(self, manifest: Manifest, before: threading.Thread | None) -> None:
        if before is not None:
            before.join()
        try:
            place = publish(self._lease, manifest)
        except Exception as error:  # noqa: BLE001 (told by poll)
            self._end(PublishResult(manifest.number, error))
            return
        self._end(PublishResult(manifest.number))
        try:
            collect(self._lease, place, self._kept, self._needed)
        except (CheckpointFailed, Fenced) as error:
            _LOGGER.warning("old checkpoints could not be removed: %s", error)

    def _end(self, result: PublishResult) -> None:
        self._ended = result
        self._has_ended.set()
