"""Class paths that Java's SDK harness has had: the jars, and which of Beam's classes it loaded.

They are in a folder of a server, for the JVM that waits for the next job. A jar in the folder may
be shared with a job that has changed it since, so its content is checked when it is copied.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

CLASS_PATHS: Final = "SPARKDRAIN_JAVA_CLASS_PATHS"
"""The environment variable with the folder of a server; not set where no JVM ever waits."""

SPARE_JVM: Final = "SPARKDRAIN_SPARE_JVM"
"""The environment variable with the folder in which the JVM of a driver waits, if one does."""

FRESH_SECONDS: Final = 3600.0
"""How long after its last use a class path is worth a JVM that waits, or a relay is one."""

_KEPT: Final = 2
_JARS: Final = "jars"
_LIST: Final = "list.json"
CLASSES: Final = "classes"
_CHUNK: Final = 1 << 20
# Whose static initializers do no more than those of a harness that starts.
_BEAMS: Final = (
    "com.fasterxml.jackson.",
    "net.bytebuddy.",
    "org.apache.beam.fn.",
    "org.apache.beam.model.",
    "org.apache.beam.sdk.",
    "org.apache.beam.vendor.",
    "org.joda.time.",
)


def digest_of(jars: Mapping[str, Path], known: Mapping[str, str]) -> str:
    """What names a class path: names, order and contents of the jars.

    Args:
        jars: by name, in their order.
        known: the SHA-256 of those of which it is known. Those are not read.

    Raises:
        OSError: a jar cannot be read.
    """
    return _digest(_rows(jars, known))


def waiting_file(place: Path, digest: str) -> Path:
    """The file that tells slots of a JVM that waits with a class path, see ``SpareProcess``.

    Args:
        place: the folder in which the JVM of a driver waits.
        digest: see ``digest_of``.
    """
    return place / f"waiting-{digest}"


def remember(home: Path, jars: Mapping[str, Path], known: Mapping[str, str], loaded: Path) -> None:
    """Keep a class path as the newest one, and no more than another one; does without on errors.

    Args:
        jars: by name, in their order.
        known: as for ``digest_of``.
        loaded: what ``-Xlog:class+load`` has written.
    """
    new = home / f".new-{secrets.token_hex(8)}"
    with contextlib.suppress(OSError):
        (new / _JARS).mkdir(parents=True)
        rows = _rows(jars, known)
        for name, path in jars.items():
            _link(path, new / _JARS / name)
        (new / _LIST).write_text(json.dumps(rows), "utf-8")
        with loaded.open(encoding="utf-8", errors="replace") as lines:
            (new / CLASSES).write_text("\n".join(_classes_of_beam(lines)), "utf-8")
        named = home / _digest(rows)
        if named.exists():
            os.utime(named)
        else:
            new.rename(named)
        for old in _newest_first(home)[_KEPT:]:
            shutil.rmtree(old, ignore_errors=True)
    shutil.rmtree(new, ignore_errors=True)


def use(home: Path, digest: str) -> None:
    """Note that a job has this class path now."""
    with contextlib.suppress(OSError):
        os.utime(home / digest)


def newest(home: Path, now: float) -> Path | None:
    """The folder of the class path that was used last; None if that was long ago.

    Args:
        now: seconds since 1970.
    """
    with contextlib.suppress(OSError):
        for folder in _newest_first(home)[:1]:
            if folder.stat().st_mtime > now - FRESH_SECONDS:
                return folder
    return None


def copied_jars(known: Path, target: Path) -> Sequence[Path]:
    """Copies of the jars of a class path, in its order; empty if one is not what it was.

    Args:
        known: the folder of the class path, which is removed if a jar in it was changed.
        target: a folder to make.

    Raises:
        OSError: a jar cannot be read or written.
    """
    target.mkdir(parents=True)
    copies = []
    for name, sha256 in json.loads((known / _LIST).read_text("utf-8")):
        copies.append(target / name)
        shutil.copyfile(known / _JARS / name, copies[-1])
        if _sha256(copies[-1]) != sha256:
            shutil.rmtree(known, ignore_errors=True)
            return []
    return copies


def _rows(jars: Mapping[str, Path], known: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, known.get(name) or _sha256(path)) for name, path in jars.items()]


def _digest(rows: Sequence[tuple[str, str]]) -> str:
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def _classes_of_beam(lines: Iterable[str]) -> Iterable[str]:
    """The names of classes that another JVM can load before it runs any code of the user's."""
    for line in lines:
        name, _, source = line.partition(" source: ")
        # Others are made by the JVM as it runs.
        if name.startswith(_BEAMS) and ".jar" in source:
            yield name


def _newest_first(home: Path) -> list[Path]:
    there = [(each.stat().st_mtime, each) for each in home.glob("[!.]*")]
    return [each for _, each in sorted(there, reverse=True)]


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source.resolve(), target)
    except OSError:  # another disk
        shutil.copyfile(source, target)


def _sha256(path: Path) -> str:
    summed = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            summed.update(chunk)
    return summed.hexdigest()
