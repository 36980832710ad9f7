"""What a Python worker keeps between tasks; the only module with state of its own."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from sparkdrain.garbage import calm_collector
from sparkdrain.graph.plan import Plan
from sparkdrain.side_inputs.file import SideFile
from sparkdrain.stages.telling.warned import forget_warnings
from sparkdrain.stages.workers.preparation import Preparation, go_to, prepare
from sparkdrain.stages.workers.strays import Strays

if TYPE_CHECKING:
    from pathlib import Path


_PLANS_KEPT = 2
_FILES_KEPT = 64


class Worker:
    """Plans and side input files that this process has opened.

    Attributes:
        strays: see ``Strays``.
    """

    def __init__(self) -> None:
        self.strays = Strays()
        self._plans: dict[str, Plan] = {}
        self._files: dict[Path, SideFile] = {}
        self._prepared: Preparation | None = None
        calm_collector()

    def prepare(self, preparation: Preparation) -> None:
        """Prepare this process for a job, if that was not the last thing it was prepared for.

        Raises:
            BadSetup: it cannot be used for the job.
        """
        # For each task anew: user code of the one before may have gone elsewhere.
        go_to(preparation.directory)
        if preparation != self._prepared:
            self._prepared = None
            prepare(preparation)
            self._prepared = preparation

    def plan(self, job: str, file: Path | bytes) -> Plan:
        """The plan of ``job``, read from its file, or the file's content, at first use."""
        if job not in self._plans:
            forget_warnings()
            content = file if isinstance(file, bytes) else file.read_bytes()
            _make_room(self._plans, _PLANS_KEPT)
            self._plans[job] = Plan.decode(content)
        return self._plans[job]

    def side_file(self, file: Path | bytes) -> SideFile:
        """A side input file, mapped at first use, or what is its content already."""
        if isinstance(file, bytes):
            return SideFile(file)
        if file not in self._files:
            _make_room(self._files, _FILES_KEPT)
            self._files[file] = SideFile.at(file)
        return self._files[file]


def _make_room(kept: dict, limit: int) -> None:  # type: ignore[type-arg]
    while len(kept) >= limit:
        del kept[next(iter(kept))]


@cache
def worker() -> Worker:
    """This process's worker, made by the first task."""
    return Worker()
