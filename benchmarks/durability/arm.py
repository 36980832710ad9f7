"""One of the jobs that are compared: a process with all that it starts, flowing when it is told."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.durability.gated import counted
from benchmarks.process_tree import VARIABLE, Tree

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[2]
_REST_SECONDS = 3.0
_BUILD_SECONDS = 1200.0
_LOOK_SECONDS = 0.5
_LOG_TAIL = 2000


@dataclass(frozen=True, slots=True)
class Segment:
    """A while in which an arm was flowing.

    Attributes:
        rate: elements a second.
        cpu: microseconds of CPU time per element.
        checkpoints: that were published.
        uploaded: bytes of files that came into the folder of checkpoints.
        load: of the machine, at the end.
    """

    rate: float
    cpu: float
    checkpoints: int
    uploaded: int
    load: float


class Arm:
    """See the module.

    Args:
        name: for tables.
        home: a directory of its own.
        options: of the job, besides those that all have.
        job: arguments of the job's process.
    """

    def __init__(
        self, name: str, home: Path, options: Sequence[str], job: Sequence[str], seconds: float
    ) -> None:
        self.name = name
        self.segments: list[Segment] = []
        self._seconds = seconds
        self._gate, self._counts = home / "open", home / "counts"
        self._checkpoints = home / "checkpoints"
        self._log = home / "log"
        for folder in (self._counts, home / "local", home / "tmp"):
            folder.mkdir(parents=True)
        mark = f"cost-{os.getpid()}-{name}"
        self._tree = Tree(mark)
        self._seen: dict[str, int] = {}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.durability.job", str(home), *job, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, VARIABLE: mark, "TMPDIR": str(home / "tmp")},
                cwd=ROOT,
                start_new_session=True,
            )

    def wait_built(self, keys: int) -> None:
        """Waits until all keys have their state, and that is durable if it is to be."""
        end = time.monotonic() + _BUILD_SECONDS
        while counted(self._counts) < keys:
            if time.monotonic() > end:
                self._give_up("the state was not built in time")
            self._pause(_LOOK_SECONDS)
        self._rest()

    def flow(self) -> Segment:
        """Lets the stream flow for a while, then rest until nothing is left to be done."""
        self._look()
        cpu, count, files = self._tree.cpu, counted(self._counts), dict(self._seen)
        published = self._published()
        began = time.monotonic()
        self._gate.touch()
        while (left := began + self._seconds - time.monotonic()) > 0:
            self._pause(min(left, _LOOK_SECONDS))
        seconds = time.monotonic() - began
        elements = counted(self._counts) - count
        self._gate.unlink()
        spent, load = self._tree.cpu - cpu, os.getloadavg()[0]
        checkpoints = self._published() - published
        self._rest()
        new = sum(size for name, size in self._seen.items() if name not in files)
        each = 1e6 * spent / max(1, elements)
        segment = Segment(elements / seconds, each, checkpoints, new, load)
        self.segments.append(segment)
        return segment

    def _rest(self) -> None:
        """Waits until what has flowed is in a checkpoint, and for some seconds at least."""
        published = self._published()
        self._pause(_REST_SECONDS)
        while self._checkpoints.exists() and self._published() < published + 2:
            self._pause(_LOOK_SECONDS)

    def _published(self) -> int:
        """The number of the newest checkpoint."""
        names = [path.stem for path in self._checkpoints.glob("*/manifests/*/*.manifest")]
        return max((int(name.split("-")[1]) for name in names), default=0)

    def _pause(self, seconds: float) -> None:
        time.sleep(seconds)
        self._look()
        if self._process.poll() is not None:
            self._give_up("the job has ended")

    def _look(self) -> None:
        self._tree.look()
        for path in self._checkpoints.glob("*/files/*"):
            if path.suffix != ".part" and path.name not in self._seen:
                try:
                    self._seen[path.name] = path.stat().st_size
                except FileNotFoundError:
                    continue

    def _give_up(self, why: str) -> None:
        tail = self._log.read_text(errors="replace")[-_LOG_TAIL:]
        message = f"{self.name}: {why}; its log ends:\n{tail}"
        raise RuntimeError(message)

    def close(self) -> None:
        """Ends all of its processes."""
        self._tree.kill()
        self._process.wait()
