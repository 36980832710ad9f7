"""How much memory a host may use; its warden looks every second and ends a host that uses more.

The system's own limit of address space (``RLIMIT_AS``, which ``spark.executor.pyspark.memory``
sets) counts mapped files, of which state stores have many. So it says little about a host.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sparkdrain.hosts.process import ps

if TYPE_CHECKING:
    from collections.abc import Iterable

_MIB: Final = 1 << 20
_KIB: Final = 1 << 10
# Of both versions of control groups, as a process in a container sees its own.
_OF_CONTAINERS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
# Without pages of files: the system can take these away at any time.
_COUNTED: Final = frozenset({"RssAnon", "RssShmem", "VmSwap"})


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """A limit for the host of one slot.

    Attributes:
        mib: MiB that the host may use; 0 means that there is no limit.
    """

    slot: int
    mib: int = 0

    def exceeded_by(self, host: int) -> str:
        """Why the process ``host`` is to end, in words; nothing if it keeps to the limit."""
        if not self.mib:
            return ""
        used = memory_of(host) // _MIB
        if used <= self.mib:
            return ""
        return (
            f"it exceeded its memory limit: slot {self.slot} used {used} MiB, and "
            f"--slot_memory_limit_mb allows {self.mib} MiB. Raise --slot_memory_limit_mb if the "
            "machine has the memory, deal the keys out to more slots with --slots, or lower "
            "--state_memory_mb if state is most of it"
        )


def memory_here(of_containers: Iterable[Path] = _OF_CONTAINERS) -> int:
    """Bytes of memory that the machine has, or the container of this process, if that is less.

    Args:
        of_containers: files that may be there, with a number if there is a limit.
    """
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for file in of_containers:
        with contextlib.suppress(OSError, ValueError):
            found.append(int(file.read_text("ascii")))
    return min(found)


def memory_of(pid: int) -> int:
    """Bytes of memory that a process uses, in swap too, without files; 0 if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        # Of other systems than Linux; files are included.
        with contextlib.suppress(OSError, ValueError):
            return int(ps(pid, "rss")) * _KIB
        return 0
    lines = (line.split() for line in status.splitlines())
    return sum(int(words[1]) for words in lines if words[0].rstrip(":") in _COUNTED) * _KIB
