"""How a metadata store is named: its kind and its place, as in ``file:/path``."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from sparkdrain.coordination.backend import load
from sparkdrain.coordination.backends import BACKENDS
from sparkdrain.errors import BadOption

AUTO: Final = "auto"
"""The store that fits the job's checkpoints, see ``beside``."""


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """Which store.

    Attributes:
        kind: a name in ``BACKENDS``, such as ``file``.
        place: what only the backend can read.
    """

    kind: str
    place: str


def beside(checkpoints: str) -> StoreAddress:
    """The store of a job that names none: as durable as its state, where that can be.

    Args:
        checkpoints: where its checkpoints go. If that is a directory of this machine, the store is
            in there, under a name that no job's folder has; all jobs share it.
    """
    root = checkpoint_root(checkpoints)
    if not root or "://" in root:
        return StoreAddress("memory", "")
    return StoreAddress("file", str(Path(root) / "@runs"))


def checkpoint_root(text: str) -> str:
    """What ``--checkpoint_dir`` names, for every process: an absolute path, or a URL.

    Runs are known by it: a slash at the end makes no other place.

    Raises:
        BadOption: a ``file:`` URL names no absolute path of this machine.
    """
    scheme, colon, path = text.partition(":")
    if colon and scheme.lower() == "file":
        path = path.removeprefix("//").removeprefix("localhost")
        if not path.startswith("/"):
            message = (
                f"--checkpoint_dir cannot be {text!r}: a file: URL names an absolute path of this "
                "machine, as in file:///absolute/path."
            )
            raise BadOption(message)
        return os.path.normpath(unquote(path)) if "%" in path else os.path.normpath(path)
    scheme, is_url, rest = text.partition("://")
    if is_url:
        return f"{scheme}://{rest.rstrip('/') or rest}"
    return os.path.abspath(text) if text else ""


def parse(text: str) -> StoreAddress:
    """Read an address; nothing is opened.

    Raises:
        BadOption: says what an address looks like.
    """
    kind, colon, place = text.partition(":")
    if not colon or kind not in BACKENDS:
        close = difflib.get_close_matches(kind, BACKENDS, n=1)
        hint = f" Did you mean {_shown(f'{close[0]}:{place}')}?" if close else ""
        *forms, last = BACKENDS.values()
        message = (
            f"--metadata_store cannot be {_shown(text)!r}: it takes {', '.join(forms)} or "
            f"{last}.{hint}"
        )
        raise BadOption(message)
    try:
        return StoreAddress(kind, load(kind).place(place))
    except ValueError as error:
        message = f"--metadata_store cannot be {_shown(text)!r}: {error}"
        raise BadOption(message) from error


def _shown(text: str) -> str:
    """An address without what may be a password: whatever is in front of an @."""
    kind, colon, place = text.partition(":")
    return text if "@" not in place else f"{kind}{colon}...@{place.rpartition('@')[2]}"
