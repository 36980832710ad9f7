"""How a metadata store is named: ``memory:NAME``, ``file:/path``, ``rocksdb:/path``."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast, get_args

from sparkdrain.errors import BadOption

Kind = Literal["memory", "file", "rocksdb"]

KINDS: Final = get_args(Kind)
AUTO: Final = "auto"
"""The store that fits the job's checkpoints, see ``beside``."""
FORMS: Final = "memory:, memory:NAME, file:/absolute/path or rocksdb:/absolute/path"


@dataclass(frozen=True, slots=True)
class Address:
    """Which store.

    Attributes:
        kind: of backend.
        place: an absolute path, or the name of a store in memory.
    """

    kind: Kind
    place: str

    @property
    def path(self) -> Path:
        """Where a store on disk is."""
        return Path(self.place)


def beside(checkpoints: str) -> Address:
    """The store of a job that names none: as durable as its state, where that can be.

    Args:
        checkpoints: where its checkpoints go. If that is a directory of this machine, the store is
            in there, under a name that no job's folder has; all jobs share it.
    """
    path = checkpoints.removeprefix("file://")
    if not path or "://" in path:
        return Address("memory", "")
    return Address("file", str(Path(path).absolute() / "@runs"))


def parse(text: str) -> Address:
    """Read an address; nothing is opened.

    Raises:
        BadOption: says what an address looks like.
    """
    kind, colon, place = text.partition(":")
    if not colon or kind not in KINDS:
        close = difflib.get_close_matches(kind, KINDS, n=1)
        hint = f" Did you mean {close[0]}:{place}?" if close else ""
        message = f"--metadata_store cannot be {text!r}: it takes {FORMS}.{hint}"
        raise BadOption(message)
    if kind != "memory":
        place = place.removeprefix("//")
        if not Path(place).is_absolute():
            message = (
                f"--metadata_store cannot be {text!r}: the path must be absolute, because other "
                f"processes are to find the store too. For instance {kind}:{Path.cwd() / place}"
            )
            raise BadOption(message)
        place = str(Path(place))
    return Address(cast("Kind", kind), place)
