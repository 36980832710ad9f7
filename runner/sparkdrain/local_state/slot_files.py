"""The folder of a host as one slot of one level uses it. The job goes on whatever is wrong there.

Before a file is kept, the slot's note names it, and the note names the files of the newest
published checkpoint and of all later ones. Only files that no note names are removed.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sparkdrain.file_lock import LockKept
from sparkdrain.local_state.files import LocalFiles
from sparkdrain.local_state.folder import FolderRefused, StateFolder
from sparkdrain.local_state.notes import HeldNote, SlotNote
from sparkdrain.local_state.sweep import sweep_now_and_then

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from sparkdrain.local_state.files import FileContent

_TABLE: Final = ".sst"


class SlotFiles:
    """See the module. One thread at a time, but for ``published``.

    Args:
        text: what ``--state_dir`` says.
        note: what is known of the slot, without needs.
        clock: seconds since 1970.
    """

    def __init__(self, text: str, note: SlotNote, clock: Callable[[], float] = time.time) -> None:
        self._text = text
        self._note = note
        self._clock = clock
        self._published = 0
        self._wrong = ""
        self._folder: StateFolder | None = None
        self._held: HeldNote | None = None
        try:
            folder = StateFolder.at(text)
            folder.prepare()
            self._held = HeldNote(folder.notes, note.name)
            self._folder = folder
        except (FolderRefused, OSError) as error:
            self._fail(error)

    @property
    def wrong(self) -> str:
        """What went wrong first, for the user; empty if nothing did."""
        return self._wrong

    def hold(self, number: int, contents: Iterable[FileContent]) -> None:
        """The slot is about to be opened from checkpoint ``number``, which names these files."""
        self._published = number
        folder = self._folder
        if folder is None:
            return
        try:
            with folder.shared():
                self._needs({number: frozenset(contents)})
        except OSError as error:
            self._fail(error)

    def give(self, content: FileContent, to: Path, moved: Callable[[], object]) -> bool:
        """Make ``to`` a file with that content, if this host has it; see ``LocalFiles.give``."""
        if self._folder is None:
            return False
        files = LocalFiles(self._folder.files)
        return files.give(content, to, link=to.suffix == _TABLE, moved=moved)

    def keep(
        self, number: int, files: Mapping[FileContent, Path], moved: Callable[[], object]
    ) -> None:
        """Keep the files of checkpoint ``number``, which are in storage.

        Args:
            files: where each is. No process may change one, and a table never changes.
            moved: called all the time; what it raises ends this.
        """
        folder = self._folder
        if folder is None:
            return
        needs = {at: kept for at, kept in self._note.needs.items() if at >= self._published}
        try:
            with folder.shared():
                if not self._needs({**needs, number: frozenset(files)}):
                    return
                kept = LocalFiles(folder.files)
                for content, path in files.items():
                    kept.keep(content, path, link=path.suffix == _TABLE, moved=moved)
            sweep_now_and_then(folder, self._clock())
        except OSError as error:
            self._fail(error)

    def bring(
        self,
        number: int,
        contents: Iterable[FileContent],
        chunks: Callable[[FileContent], Iterable[bytes]],
    ) -> None:
        """Have all files of the published checkpoint ``number``.

        Args:
            contents: all files that it names.
            chunks: the bytes of one of them, compared with its content. What it raises ends this.
        """
        folder, wanted = self._folder, frozenset(contents)
        if folder is None:
            return
        try:
            with folder.shared():
                # What was whole before stays, until this is.
                if not self._needs({**self._note.needs, number: wanted}):
                    return
                files = LocalFiles(folder.files)
                for content in sorted(wanted):
                    if not files.has(content):
                        files.bring(content, chunks(content))
                self._needs({number: wanted})
            sweep_now_and_then(folder, self._clock())
        except OSError as error:
            self._fail(error)

    def published(self, number: int) -> None:
        """Checkpoint ``number`` is the newest one now: older ones are not needed from then on."""
        self._published = max(self._published, number)

    def close(self) -> None:
        """The slot ends here. Its files stay."""
        if self._held is not None:
            with suppress(OSError):
                self._held.close()
        self._held = self._folder = None

    def _needs(self, needs: Mapping[int, frozenset[FileContent]]) -> bool:
        self._note = replace(self._note, needs=needs)
        if self._held is None:
            return False
        try:
            self._held.write(self._note)
        except OSError as error:
            self._fail(error)
            return False
        return True

    def _fail(self, error: Exception) -> None:
        if isinstance(error, LockKept):
            self._folder = None  # each checkpoint would wait as long
        if not self._wrong:
            self._wrong = (
                f"--state_dir={self._text} does not keep files of this job: {error}. The job goes "
                "on; slots that are opened on this host again fetch what is missing there from "
                "--checkpoint_dir."
            )


def held_bytes(text: str, needed: Mapping[int, Iterable[FileContent]]) -> dict[int, int]:
    """How many bytes of a slot's files are in the folder, by slot. The files are not read.

    Args:
        text: what ``--state_dir`` says.
        needed: the files of each slot.
    """
    try:
        files = LocalFiles(StateFolder.at(text).files)
    except FolderRefused:
        return {}
    found = {
        slot: sum(each.size for each in set(contents) if files.has(each))
        for slot, contents in needed.items()
    }
    return {slot: size for slot, size in found.items() if size}
