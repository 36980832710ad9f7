"""What a store held at a moment, with its tables linked: a store of its own, or an undo point.

An undo point is in a directory inside the store's own. The file ``STORE`` in it is written last and
removed first, so it says that the point is complete. Going back can be begun anew after it was
interrupted anywhere.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from rocksdict import Checkpoint

from timers_state.errors import NotAStore, StoreFailed
from timers_state.store.formats import (
    FORMAT,
    ROCKS_DIRECTORY,
    STORE_FILE,
    Seal,
    seal_of,
    write_seal,
)

if TYPE_CHECKING:
    from pathlib import Path

    from rocksdict import Rdict

UNDO_DIRECTORY: Final = "undo"


def link_store(db: Rdict, directory: Path, sequence: int, number: int = FORMAT) -> None:
    """Makes the store ``directory``: what ``db``, of format ``number``, holds after ``sequence``.

    What is in memory is written out first: there is no log that could bring it back. Tables are
    linked, never copied, if ``directory`` is on the file system of ``db``. The seal comes last, so
    what is incomplete is no store; if it raises, nothing is left.
    """
    _make(directory)
    try:
        Checkpoint(db).create_checkpoint(str(directory / ROCKS_DIRECTORY))
        write_seal(directory, seal_of(directory, sequence, number))
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def empty_store(directory: Path) -> None:
    """Makes the store ``directory``, to which nothing was ever written."""
    _make(directory)
    write_seal(directory, Seal())


def _make(directory: Path) -> None:
    try:
        directory.mkdir()
    except FileExistsError as error:
        if not directory.is_dir() or any(directory.iterdir()):
            message = f"{directory} is not empty: a snapshot needs a directory of its own"
            raise NotAStore(message) from error
    except OSError as error:
        message = f"the directory {directory} cannot be made: {error}"
        raise StoreFailed(message) from error


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
