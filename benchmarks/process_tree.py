"""Memory and CPU time of a process session, read from /proc (Linux).

A process session keeps together what a runner starts, also where a parent ended before its child
or a child leads a process group of its own, as PySpark's worker daemon does.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
# Fields of `stat` after the command's name.
_STATE, _SESSION, _UTIME, _CSTIME, _RSS = 0, 3, 11, 14, 21


@dataclass(frozen=True, slots=True)
class Usage:
    """Of all living processes of a session.

    Attributes:
        pids: the processes.
        rss: resident bytes, summed; pages that forked processes share are counted in each.
        cpu: CPU seconds, with those of children that have ended and were waited for.
    """

    pids: tuple[int, ...]
    rss: int
    cpu: float


def usage(session: int) -> Usage:
    """What the processes of `session` use now."""
    pids, rss, ticks = [], 0, 0
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with suppress(OSError):  # it ended meanwhile
            stat = Path(entry.path, "stat").read_text(encoding="utf-8", errors="replace")
            fields = stat.rpartition(")")[2].split()
            if int(fields[_SESSION]) == session and fields[_STATE] != "Z":
                pids.append(int(entry.name))
                rss += int(fields[_RSS]) * _PAGE
                ticks += sum(map(int, fields[_UTIME : _CSTIME + 1]))
    return Usage(tuple(pids), rss, ticks / _TICKS)


def kill(session: int) -> None:
    """Ends every process of `session`, those that start meanwhile too."""
    while pids := usage(session).pids:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
