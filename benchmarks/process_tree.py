"""Memory and CPU time of what a benchmark session started, read from /proc (Linux).

A mark in the environment keeps together what a runner starts, also where a parent ended before its
child or a child leads a session of its own, as processes with state of this runner do.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "SPARKDRAIN_BENCHMARK"

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
# Fields of `stat` after the command's name.
_STATE, _PARENT, _UTIME, _CSTIME, _RSS = 0, 1, 11, 14, 21


@dataclass(frozen=True, slots=True)
class Process:
    """A living process.

    Attributes:
        parent: its parent's id.
        rss: resident bytes; pages that forked processes share are counted in each.
        cpu: CPU seconds, with those of children that have ended and were waited for.
    """

    parent: int
    rss: int
    cpu: float


class Tree:
    """All processes whose environment has `mark` as the value of `VARIABLE`."""

    def __init__(self, mark: str) -> None:
        self._entry = f"{VARIABLE}={mark}".encode()
        self._last: dict[int, Process] = {}
        self._gone = 0.0
        self.rss = 0

    @property
    def cpu(self) -> float:
        """CPU seconds up to the last look; what a process did after its last look is not in it."""
        return self._gone + sum(process.cpu for process in self._last.values())

    def look(self) -> None:
        """Takes `rss` and `cpu` anew. Often, or what ends without a parent's wait is missed."""
        now = self._living()
        for pid in self._last.keys() - now.keys():
            # A parent that lives has waited, so that the time is in its own; or is still to wait.
            if ended := _ended(pid):
                now[pid] = ended
            elif self._last[pid].parent not in now:
                self._gone += self._last[pid].cpu
        self._last = now
        self.rss = sum(process.rss for process in now.values())

    def kill(self) -> None:
        """Ends every process, those that start meanwhile too."""
        while pids := self._living():
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _living(self) -> dict[int, Process]:
        found = {}
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit():
                continue
            with suppress(OSError):  # it ended meanwhile, or is not ours to read
                if self._entry in Path(entry.path, "environ").read_bytes().split(b"\0"):
                    fields = _fields(Path(entry.path))
                    if fields[_STATE] != "Z":
                        found[int(entry.name)] = _process(fields)
        return found


def _ended(pid: int) -> Process | None:
    """The process, if it has ended and its parent has not waited for it; else None."""
    with suppress(OSError):
        fields = _fields(Path(f"/proc/{pid}"))
        if fields[_STATE] == "Z":
            return _process(fields)
    return None


def _fields(folder: Path) -> list[str]:
    stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
    return stat.rpartition(")")[2].split()


def _process(fields: list[str]) -> Process:
    ticks = sum(map(int, fields[_UTIME : _CSTIME + 1]))
    return Process(int(fields[_PARENT]), int(fields[_RSS]) * _PAGE, ticks / _TICKS)
