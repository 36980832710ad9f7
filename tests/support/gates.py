"""Places in a program where a test can hold it, from another process."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

_LONGEST = 120.0


@dataclass(frozen=True)
class Gates:
    """Gates with names. All are open, but those that the test has closed.

    Args:
        folder: where processes and the test see each other's files.
    """

    folder: str

    def pass_by(self, name: str) -> None:
        """Wait here while the gate is closed."""
        closed = self._file("closed", name)
        if not closed.exists():
            return
        (Path(self.folder) / f"held-{name}-{os.getpid()}").touch()
        end = time.monotonic() + _LONGEST
        while closed.exists() and time.monotonic() < end:
            time.sleep(0.005)

    def close(self, name: str) -> None:
        """Hold every process that comes to this gate."""
        self._file("closed", name).touch()

    def open(self, name: str) -> None:
        """Let all go on."""
        self._file("closed", name).unlink()

    def held(self, name: str) -> list[int]:
        """The processes that have been held at the gate."""
        found = Path(self.folder).glob(f"held-{name}-*")
        return [int(path.name.rpartition("-")[2]) for path in found]

    def _file(self, kind: str, name: str) -> Path:
        return Path(self.folder) / f"{kind}-{name}"
