"""The file ``STORE`` in a store's directory: the format of its bytes, and what it must contain.

It is written when the store is created, flushed and closed, always as a whole (rename). It says how
many batches are promised to be there and how long RocksDB's list of files was, because RocksDB
takes a list that lost its end for an older, shorter one, deletes the files that are missing in it
and opens without a word.

A migration is one step, from a format to the next. It changes rows by numbered batches, as the
overlay that owns the store does. All the steps that a store needs happen behind one undo point. So
the store is either as it was or wholly new, also after a failure, and after the death of its
process at any moment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from zlib import crc32

from timers_state.errors import FormatTooNew, FormatTooOld, NotAStore, StoreCorrupt, StoreFailed
from timers_state.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

FORMAT: Final = 1
"""Raised with every change of what stored bytes mean; ``MIGRATIONS`` lead there from older ones."""

Migration = Callable[[Store], None]

MIGRATIONS: Final[Mapping[int, Migration]] = MappingProxyType({})
"""The migrations by the format that each starts from. None yet: format 1 was the first."""

STORE_FILE: Final = "STORE"
ROCKS_DIRECTORY: Final = "rocks"
_TITLE: Final = "timers_state store"


@dataclass(frozen=True, slots=True)
class Seal:
    """What a store promised when it was last flushed or closed.

    ``manifest`` is the name of RocksDB's list of files and ``manifest_bytes`` its length then; the
    name is empty if there was no list yet. ``format`` says what the stored bytes mean.
    """

    sequence: int = 0
    manifest: str = ""
    manifest_bytes: int = 0
    format: int = FORMAT


def write_seal(directory: Path, seal: Seal) -> None:
    """Replaces the file ``STORE`` durably."""
    body = (
        f"{_TITLE}\nformat {seal.format}\nsequence {seal.sequence}\n"
        f"manifest {seal.manifest or '-'} {seal.manifest_bytes}\n"
    )
    text = f"{body}crc {crc32(body.encode()):08x}\n"
    path = directory / STORE_FILE
    part = directory / f"{STORE_FILE}.part"
    try:
        with part.open("w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        message = f"{path} cannot be written: {error}"
        raise StoreFailed(message) from error


def read_seal(directory: Path) -> Seal | None:
    """What the file ``STORE`` says; None if the directory is absent or empty.

    Raises:
        NotAStore: the directory holds other things.
        FormatTooNew: the store was written by a newer release.
        StoreCorrupt: the file is damaged.
    """
    path = directory / STORE_FILE
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        _refuse_other_content(directory)
        return None
    except OSError as error:
        message = f"{path} cannot be read: {error}"
        raise StoreFailed(message) from error
    lines = text.split("\n")
    if lines[0] != _TITLE:
        message = f"{path} is damaged: it does not begin with {_TITLE!r}"
        raise StoreCorrupt(message)
    number = _format(path, lines)
    body, _, crc = text.rpartition("crc ")
    if crc != f"{crc32(body.encode('ascii', 'replace')):08x}\n":
        message = f"{path} is damaged: its checksum does not fit. Restore the store from a copy."
        raise StoreCorrupt(message)
    manifest, length = lines[3].split(" ")[1:]
    sequence = int(lines[2].split(" ")[1])
    return Seal(sequence, "" if manifest == "-" else manifest, int(length), number)


def check_files(directory: Path, seal: Seal) -> None:
    """Compares RocksDB's list of files with the seal, before RocksDB can act on a damaged one.

    Raises:
        StoreCorrupt: the list is missing or shorter than it was.
    """
    rocks = directory / ROCKS_DIRECTORY
    current = rocks / "CURRENT"
    if not current.exists():
        leftover = seal.manifest or (rocks.exists() and any(rocks.glob("MANIFEST-*")))
        if not leftover:
            return
        message = f"{current} is missing, so the files in {rocks} cannot be told apart"
        raise StoreCorrupt(message)
    if not seal.manifest:
        return
    name = current.read_text(encoding="ascii", errors="replace").strip()
    manifest = rocks / name
    if not name.startswith("MANIFEST-") or not manifest.is_file():
        message = f"{current} names {name!r}, which is not there"
        raise StoreCorrupt(message)
    length = manifest.stat().st_size
    if name == seal.manifest and length < seal.manifest_bytes:
        message = f"{manifest} is truncated: {length} of at least {seal.manifest_bytes} bytes"
        raise StoreCorrupt(message)


def seal_of(directory: Path, sequence: int, number: int = FORMAT) -> Seal:
    """The seal that describes the files as they are now, in format ``number``."""
    rocks = directory / ROCKS_DIRECTORY
    try:
        name = (rocks / "CURRENT").read_text(encoding="ascii").strip()
        return Seal(sequence, name, (rocks / name).stat().st_size, number)
    except OSError as error:
        message = f"the list of files in {rocks} cannot be read: {error}"
        raise StoreFailed(message) from error


def _format(path: Path, lines: list[str]) -> int:
    word, _, number = (lines[1] if len(lines) > 1 else "").partition(" ")
    if word != "format" or not number.isdigit():
        message = f"{path} is damaged: its second line does not name a format"
        raise StoreCorrupt(message)
    if int(number) > FORMAT:
        message = (
            f"{path} has format {number}; this release reads formats up to {FORMAT}. "
            "Open it with the release that wrote it, or a later one."
        )
        raise FormatTooNew(message)
    return int(number)


def _refuse_other_content(directory: Path) -> None:
    if not directory.exists():
        return
    found = sorted(entry.name for entry in directory.iterdir() if entry.name != "STORE.part")
    if found:
        message = (
            f"{directory} holds {found[0]!r} but no file {STORE_FILE!r}: it is not a store, or the "
            "file was lost. Name another directory, or restore the store from a copy."
        )
        raise NotAStore(message)


def steps_from(
    number: int, migrations: Mapping[int, Migration], directory: Path
) -> tuple[Migration, ...]:
    """What leads from format ``number`` to this release's, in order.

    Raises:
        FormatTooOld: a step is missing; names ``directory``.
    """
    formats = range(number, FORMAT)
    missing = [each for each in formats if each not in migrations]
    if missing:
        message = (
            f"{directory} has format {number}, and nothing leads from format {missing[0]} to "
            f"{FORMAT}, which this release has. Open it with the release that wrote it."
        )
        raise FormatTooOld(message)
    return tuple(migrations[each] for each in formats)
