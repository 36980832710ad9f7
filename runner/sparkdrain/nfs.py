"""Whether a folder is on NFS, and mounted so that each machine sees what others have written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MOUNTINFO = Path("/proc/self/mountinfo")
"""What the kernel of Linux says is mounted; other systems have no such file."""

_TYPES: Final = frozenset({"nfs", "nfs3", "nfs4"})
_SAFE: Final = "lookupcache=none,actimeo=0"
# The kernel shows the second one as what it stands for.
_NO_ATTRIBUTES: Final = ({"noac"}, {"actimeo=0"}, {"acdirmin=0", "acdirmax=0"})
_NO_LOOKUPS: Final = "lookupcache=none"
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system.

    Attributes:
        point: the folder at which it is mounted.
        options: how, those of the mount and of the file system.
    """

    point: str
    kind: str
    source: str
    options: frozenset[str]

    @property
    def is_seen_at_once(self) -> bool:
        """Whether a look into a folder shows what other machines have written."""
        options = self.options
        return _NO_LOOKUPS in options and any(safe <= options for safe in _NO_ATTRIBUTES)


def warning(option: str, folder: Path) -> str | None:
    """What to tell of a folder on NFS that is not mounted as it should be; else None.

    Args:
        option: which names the folder.
        folder: need not be there.
    """
    mount = _nfs_under(folder)
    if mount is None or mount.is_seen_at_once:
        return None
    return (
        f"{option} is on NFS: {mount.source}, mounted at {mount.point}, without {_SAFE}. So this "
        "machine may miss for a minute what other machines have written there. No checkpoint is "
        "lost by that. But a driver that was replaced goes on for so long beside the new one, and "
        f"a request to drain comes late. Mount it with {_SAFE}."
    )


def is_on_nfs(folder: Path) -> bool:
    """Whether a server keeps the files of a folder, which need not be there."""
    return _nfs_under(folder) is not None


def mount_of(path: Path, mountinfo: str) -> Mount | None:
    """The file system that a path is on; None if the text names none.

    Args:
        path: absolute, without links.
        mountinfo: lines as those of ``MOUNTINFO``.
    """
    found: Mount | None = None
    for line in mountinfo.splitlines():
        mount = _mount(line)
        if mount is None or not path.is_relative_to(mount.point):
            continue
        # What is mounted later hides what was mounted at the same point.
        if found is None or len(mount.point) >= len(found.point):
            found = mount
    return found


def _nfs_under(folder: Path) -> Mount | None:
    try:
        mounts = MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    mount = mount_of(folder.resolve(), mounts)
    return mount if mount is not None and mount.kind in _TYPES else None


def _mount(line: str) -> Mount | None:
    before, separator, after = line.partition(" - ")
    first, last = before.split(" "), after.split(" ")
    if not separator or len(first) < 6 or len(last) < 3:
        return None
    options = frozenset(first[5].split(",")) | frozenset(last[2].split(","))
    return Mount(_plain(first[4]), last[0], _plain(last[1]), options)


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)
