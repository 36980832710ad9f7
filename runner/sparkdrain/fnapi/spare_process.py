"""A process that waits in a driver for the next job: a JVM or a relay.

A file in a folder of the driver names the process's own folder. A slot takes the process for a job
by renaming that file, which one slot alone can do. Then all slots of the job share the process.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from sparkdrain.fnapi.shared_process import SharedProcess

_TAKEN: Final = "taken"


class SpareProcess:
    """What a driver has of a process that waits.

    Args:
        shared: the process, which this object lets go.
        waiting: the file that tells slots of it.
    """

    def __init__(self, shared: SharedProcess, waiting: Path) -> None:
        self._shared = shared
        self._waiting = waiting

    def end_unless_taken(self) -> None:
        """End the process, unless slots use it. Then it ends with them."""
        self._waiting.unlink(missing_ok=True)
        self._shared.let_go()


def taken_by(waiting: Path) -> SharedProcess | None:
    """Take the process that a file tells of; None if another slot has it, or it has ended."""
    taken = waiting.with_name(_TAKEN)
    with contextlib.suppress(OSError):
        waiting.rename(taken)
        return SharedProcess.held(Path(taken.read_text("utf-8")))
    return None
