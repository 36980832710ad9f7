"""A store of its own that holds what another one held at a moment, and shares its tables."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from rocksdict import Checkpoint

from timers_state.errors import NotAStore, StoreFailed
from timers_state.store.formats import FORMAT, ROCKS_DIRECTORY, Seal, seal_of, write_seal

if TYPE_CHECKING:
    from pathlib import Path

    from rocksdict import Rdict


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
