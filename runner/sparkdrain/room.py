"""Where this process keeps temporary files of any size, so that they go with the process."""

from __future__ import annotations

import sys


def room() -> str | None:
    """A folder that another process removes if this one is killed.

    None if there is none; then use the folder for temporary files, as ``tempfile`` does for None.
    """
    if sys.platform == "win32":
        return None
    from sparkdrain.own_folder import own_room  # noqa: PLC0415 (POSIX only)

    return own_room()
