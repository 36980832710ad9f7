"""This package as an archive that executors can import."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import sparkdrain
import sparkdrain_hook
import timers_state

if TYPE_CHECKING:
    from collections.abc import Iterator

_PACKAGES: Final = (sparkdrain, timers_state)
_MODULES: Final = (sparkdrain_hook,)


def code_archive(directory: Path) -> Path:
    """An importable archive, in ``directory``; its name tells its content."""
    unnamed = directory / "sparkdrain.zip"
    digest = hashlib.sha256()
    with zipfile.ZipFile(unnamed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _sources():
            digest.update(b"%d %b %d " % (len(name), name.encode(), len(content)) + content)
            archive.writestr(name, content)
    return unnamed.rename(directory / f"sparkdrain-{digest.hexdigest()[:16]}.zip")


def _sources() -> Iterator[tuple[str, bytes]]:
    for module in _MODULES:
        file = Path(str(module.__file__))
        yield file.name, file.read_bytes()
    for package in _PACKAGES:
        root = Path(str(package.__file__)).parent
        for file in sorted(root.rglob("*")):
            if file.is_file() and file.suffix not in {".pyc", ".pyo"}:
                yield file.relative_to(root.parent).as_posix(), file.read_bytes()
