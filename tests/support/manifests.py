"""The manifests of checkpoints, while a job writes and removes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def manifests(folder: Path, job: str = "*") -> list[Path]:
    """The manifests in a checkpoint folder, of one job or of all.

    A folder that gets its name, or goes, is gone before it is looked into. Then all are looked for
    again.
    """
    while True:
        try:
            return list(folder.glob(f"{job}/manifests/*/*.manifest"))
        except FileNotFoundError:
            continue
