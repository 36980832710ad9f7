"""What this host has of the files that slots need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkdrain.local_state.files import LocalFiles
from sparkdrain.local_state.folder import FolderRefused, StateFolder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sparkdrain.local_state.content import FileContent


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
