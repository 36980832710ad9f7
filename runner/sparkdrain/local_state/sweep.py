"""Removes files that no slot needs, and notes of slots that no process has taken up for long."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sparkdrain.local_state.files import LocalFiles
from sparkdrain.local_state.notes import FoundNote, forget, found_notes, still_held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sparkdrain.local_state.folder import StateFolder

DAYS: Final = 7.0
"""How long files stay of a slot that no process has."""

_DAY: Final = 86_400.0
_EVERY_SECONDS: Final = 30.0
_PART_SECONDS: Final = 3600.0
# Of the disk; if less is free, the files of slots that no process has go, the oldest first.
_FREE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Swept:
    """What was removed."""

    notes: tuple[FoundNote, ...] = ()
    files: int = 0
    bytes: int = 0


def sweep_now_and_then(
    folder: StateFolder,
    now: float,
    usage: Callable[[str], tuple[int, int, int]] = shutil.disk_usage,
) -> Swept:
    """Remove what is not needed, unless some process did so in the last 30 s, or does so now.

    Args:
        now: seconds since 1970.
        usage: bytes of a disk: all, used, free.

    Raises:
        OSError: the folder cannot be read.
    """
    if 0 <= now - folder.swept() < _EVERY_SECONDS:
        return Swept()
    total, _, free = usage(str(folder.path))
    with suppress(BlockingIOError), folder.alone():
        folder.sweeps(now)
        found = found_notes(folder.notes)
        for each in found:
            if each.is_held:
                still_held(folder.notes, each.name, now)
        sizes = LocalFiles(folder.files).sizes()
        old = outdated(found, sizes, now - DAYS * _DAY, int(_FREE * total) - free)
        return _remove(folder, found, old, sizes, now)
    return Swept()


def sweep(folder: StateFolder, doomed: Callable[[FoundNote], bool], now: float) -> Swept:
    """Remove the notes that are doomed and held by no process, and the files of no other note.

    Args:
        doomed: whether a note is to go.
        now: seconds since 1970.

    Raises:
        BlockingIOError: another process adds or removes files now.
        OSError: the folder cannot be read.
    """
    with folder.alone():
        found = found_notes(folder.notes)
        old = [each for each in found if not each.is_held and doomed(each)]
        return _remove(folder, found, old, LocalFiles(folder.files).sizes(), now)


def outdated(
    found: Sequence[FoundNote], sizes: Mapping[str, int], before: float, wanted: int
) -> list[FoundNote]:
    """The notes that are to go; never one that is held. Pure.

    Args:
        found: all notes.
        sizes: bytes of each file that is there, by digest.
        before: a note that was not held since then goes; seconds since 1970.
        wanted: bytes that are to become free; the notes that were held longest ago go for them.
    """
    free = sorted((each for each in found if not each.is_held), key=lambda each: each.seen)
    old = [each for each in free if each.seen < before or each.note is None]
    kept = [each for each in free if each not in old]
    left = [each for each in found if each not in old]
    wanted -= sum(sizes.values()) - sum(_needed(left, sizes).values())
    while wanted > 0 and kept:
        one = kept.pop(0)
        old.append(one)
        without = [each for each in left if each is not one]
        wanted -= sum(_needed(left, sizes).values()) - sum(_needed(without, sizes).values())
        left = without
    return old


def _needed(found: Iterable[FoundNote], sizes: Mapping[str, int]) -> dict[str, int]:
    return {
        content.digest: sizes[content.digest]
        for each in found
        if each.note is not None
        for content in each.note.contents
        if content.digest in sizes
    }


def _remove(
    folder: StateFolder,
    found: Sequence[FoundNote],
    doomed: Sequence[FoundNote],
    sizes: Mapping[str, int],
    now: float,
) -> Swept:
    gone = tuple(each for each in doomed if forget(folder.notes, each.name))
    left = [each for each in found if each not in gone]
    files = LocalFiles(folder.files)
    for part in files.parts(now - _PART_SECONDS):
        files.remove(part)
    if any(each.note is None for each in left):
        return Swept(gone)  # it is not known what these need
    needed = _needed(left, sizes)
    removed = [name for name in sizes if name not in needed]
    for name in removed:
        files.remove(name)
    return Swept(gone, len(removed), sum(sizes[name] for name in removed))
