"""Undo points: a store's files as they were, linked into a directory inside the store's own.

The file ``STORE`` in it is written last and removed first, so it says that the point is complete.
Going back can be begun anew after it was interrupted anywhere.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from timers_state.store.formats import ROCKS_DIRECTORY, STORE_FILE
from timers_state.store.snapshot import link_store

if TYPE_CHECKING:
    from pathlib import Path

    from rocksdict import Rdict

UNDO_DIRECTORY: Final = "undo"


def make_undo_point(db: Rdict, directory: Path, sequence: int, number: int) -> None:
    """Keeps what ``db``, the store in ``directory``, holds after ``sequence``, in its format."""
    drop_undo_point(directory)
    link_store(db, directory / UNDO_DIRECTORY, sequence, number)


def drop_undo_point(directory: Path) -> None:
    """Lets go of the undo point, if there is one."""
    point = directory / UNDO_DIRECTORY
    (point / STORE_FILE).unlink(missing_ok=True)
    shutil.rmtree(point, ignore_errors=True)


def go_back(directory: Path) -> None:
    """Replaces a closed store by its undo point, if it has a complete one.

    Raises:
        OSError: files cannot be removed or moved.
    """
    point = directory / UNDO_DIRECTORY
    if (point / STORE_FILE).exists():
        kept, current = point / ROCKS_DIRECTORY, directory / ROCKS_DIRECTORY
        if kept.exists():  # else this was done before, and interrupted after
            if current.exists():
                shutil.rmtree(current)
            kept.rename(current)
        (point / STORE_FILE).replace(directory / STORE_FILE)
    shutil.rmtree(point, ignore_errors=True)
