"""Metadata stores in directories: how they are named, and who may change them."""

from __future__ import annotations

import contextlib
from pathlib import Path

from sparkdrain import access, nfs
from sparkdrain.coordination.backend import StoreReach


def place(text: str) -> str:
    """Read an absolute path.

    Raises:
        ValueError: it is something else.
    """
    path = Path(text.removeprefix("//"))
    if not path.is_absolute():
        message = (
            "the path must be absolute, because other processes are to find the store too. For "
            f"instance {Path.cwd() / path}"
        )
        raise ValueError(message)
    return str(path)


def reach(place: str) -> StoreReach:
    """Who can open a store in the directory: other machines too, if a server keeps its files."""
    on_nfs = nfs.is_on_nfs(Path(place))
    return StoreReach.NETWORK if on_nfs else StoreReach.MACHINE


def exists(place: str) -> bool:
    """Whether a directory is there."""
    return Path(place).is_dir()


def prepare(place: str, *, group: bool) -> list[str]:
    """Make the directory for this user, or its group too; see ``Backend``."""
    path = Path(place)
    found: list[str] = []
    with contextlib.suppress(OSError):  # the store says why
        access.prepare(path, group=group)
    with contextlib.suppress(OSError):
        found += access.complaints(path, harm=access.HEEDED)
        if told := nfs.warning("--metadata_store", path):
            found.append(told)
    return found
