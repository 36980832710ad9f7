"""What a driver knows that no slot reports, as a manifest keeps it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sparkdrain.drain.notification import DrainNotification, UnreadableNotification
from sparkdrain.drain.phases import DrainPhase
from sparkdrain.errors import CheckpointRefused

if TYPE_CHECKING:
    from sparkdrain.checkpoints.manifest import Manifest

# Older releases wrote one of three words. The second phase is that of a job whose sources are cut.
_OLD: Final = {
    "going on": (DrainPhase.READING, DrainPhase.CUT),
    "publishing": (DrainPhase.ENDING, DrainPhase.PUBLISHING),
    "over": (DrainPhase.DONE, DrainPhase.DRAINED),
}


@dataclass(frozen=True, slots=True)
class DriverState:
    """What a driver goes on with.

    Attributes:
        play: see ``loop.Play.position``.
        drain: the request to drain it, if its sources were cut.
    """

    play: int
    phase: DrainPhase
    drain: DrainNotification | None

    def encode(self) -> bytes:
        """As JSON, which people can read in a manifest."""
        drain = None if self.drain is None else self.drain.encode().decode()
        fields = {"play": self.play, "phase": self.phase.name, "drain": drain}
        return json.dumps(fields).encode()

    @classmethod
    def of(cls, manifest: Manifest) -> DriverState:
        """What the driver knew that made a checkpoint.

        Raises:
            CheckpointRefused: it was of a release that wrote this down in another way.
        """
        try:
            fields = json.loads(manifest.driver)
            text, phase = fields["drain"], fields["phase"]
            drain = None if text is None else DrainNotification.decode(text.encode())
            found = _OLD[phase][drain is not None] if phase in _OLD else _phase(phase)
            return cls(int(fields["play"]), found, drain)
        except KeyError as error:
            raise _unreadable(manifest, f"{error} is missing") from error
        except (ValueError, TypeError, AttributeError, UnreadableNotification) as error:
            raise _unreadable(manifest, str(error)) from error


def _phase(name: str) -> DrainPhase:
    if name not in DrainPhase.__members__:
        message = f"the phase {name!r} is unknown"
        raise ValueError(message)
    return DrainPhase[name]


def _unreadable(manifest: Manifest, what: str) -> CheckpointRefused:
    message = (
        f"Manifest {manifest.stamp} of job {manifest.job_name!r} is whole, but this release cannot "
        f"read what the driver wrote there ({what}): another release wrote it. Resume the job with "
        "that one, or begin anew with another --job_name or --checkpoint_dir."
    )
    return CheckpointRefused(message)
