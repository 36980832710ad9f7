"""Memory and CPU time of what a benchmark session started, read from /proc (Linux).

A mark in the environment keeps together what a runner starts, also where a parent ended before its
child or a child leads a session of its own, as processes with state of this runner do.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

VARIABLE = "SPARKDRAIN_BENCHMARK"

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
# Fields of `stat` after the command's name.
_STATE, _UTIME, _STIME, _START, _RSS = 0, 11, 12, 19, 21


class _Name(NamedTuple):
    """A process, and none that has its number later."""

    pid: int
    start: str


class Tree:
    """All processes whose environment has `mark` as the value of `VARIABLE`.

    Attributes:
        rss: resident bytes at the last look; pages that forked processes share count in each.
    """

    def __init__(self, mark: str) -> None:
        self._entry = f"{VARIABLE}={mark}".encode()
        self._living: set[_Name] = set()
        self._cpu: dict[_Name, float] = {}
        self.rss = 0

    @property
    def cpu(self) -> float:
        """CPU seconds that the processes had at the last look that saw them.

        Times that the system adds up in a parent are not used: which parent has them, and when,
        depends on who has ended first and on who waits.
        """
        return sum(self._cpu.values())

    def look(self) -> None:
        """Takes `rss` and `cpu` anew. What a process does after the last look is lost."""
        found = {name: fields for name, fields in _processes().items() if self._has(name)}
        # The environment of one that has ended is gone, its times are there until it is waited for.
        gone = {name: _fields(name.pid) for name in self._living - found.keys()}
        found |= {name: f for name, f in gone.items() if f and f[_START] == name.start}
        self.rss = sum(int(fields[_RSS]) * _PAGE for fields in found.values())
        self._cpu |= {name: _seconds(fields) for name, fields in found.items()}
        self._living = set(found)

    def kill(self) -> None:
        """Ends every process, those that start meanwhile too."""
        while names := [n for n, f in _processes().items() if f[_STATE] != "Z" and self._has(n)]:
            for name in names:
                with suppress(ProcessLookupError):
                    os.kill(name.pid, signal.SIGKILL)

    def _has(self, name: _Name) -> bool:
        try:
            environment = Path(f"/proc/{name.pid}/environ").read_bytes()
        except OSError:  # it ended meanwhile, or is not ours to read
            return False
        return self._entry in environment.split(b"\0")


def _processes() -> dict[_Name, list[str]]:
    pids = [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]
    fields = {pid: _fields(pid) for pid in pids}
    return {_Name(pid, each[_START]): each for pid, each in fields.items() if each}


def _fields(pid: int) -> list[str]:
    """What `stat` says; empty if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return stat.rpartition(")")[2].split()


def _seconds(fields: list[str]) -> float:
    return (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS
