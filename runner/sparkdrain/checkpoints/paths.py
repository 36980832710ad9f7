"""Every path in storage; no other module puts one together or takes one apart."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from sparkdrain.errors import CheckpointDamaged

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST: Final = 255
"""Bytes in the name of a folder; what the file systems in use take."""

_CLAIMS: Final = "claims"
_MANIFESTS: Final = "manifests"
_FILES: Final = "files"
_MARK: Final = "published"
_STAMP: Final = re.compile(r"(\d{6,})-(\d{9,})\b")
_MANIFEST: Final = re.compile(r"(?:(\d{9,})/)?(\d{6,})-(\d{9,})\.manifest")
# Also what a writer that died has left of one, in this release or an older one.
_PART: Final = re.compile(r"(?:(\d{9,})(?:\.[0-9a-f]+\.part)?/)?(\d{6,})-(\d{9,})\b")
_CLAIM: Final = re.compile(r"(\d{6,})-([0-9A-Za-z]+)")
_JOB_OF_MANIFEST: Final = re.compile(rf"(?:(.*?)/)?{_MANIFESTS}/([^/]+(?:/[^/]+)?)")


@dataclass(frozen=True, slots=True, order=True)
class Stamp:
    """Names a checkpoint of a job; later ones are greater.

    Attributes:
        number: counts a job's checkpoints.
    """

    epoch: int
    number: int

    def __str__(self) -> str:
        return f"{self.epoch:06d}-{self.number:09d}"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A published checkpoint's place in the line of a job's checkpoints; later ones are greater.

    Attributes:
        position: number of its manifest's folder, one more than that of the checkpoint that it
            follows; 0 if a release wrote it that had no such folders.
    """

    position: int
    stamp: Stamp

    def __str__(self) -> str:
        return f"{self.position:09d}/{self.stamp}" if self.position else str(self.stamp)


@dataclass(frozen=True, slots=True)
class Paths:
    """Where everything of one job is.

    Attributes:
        root: what the option ``--checkpoint_dir`` says; any path of Beam's file systems.
        job_name: one folder in ``root`` for each.
    """

    root: str
    job_name: str

    @property
    def folder(self) -> str:
        """Where all of the job is."""
        return f"{self.root.rstrip('/')}/{folder_name(self.job_name)}"

    @property
    def claims(self) -> str:
        """Where drivers write down that the job is theirs."""
        return f"{self.folder}/{_CLAIMS}"

    @property
    def manifests(self) -> str:
        """Where published checkpoints are."""
        return f"{self.folder}/{_MANIFESTS}"

    @property
    def files(self) -> str:
        """Where the files are that manifests name."""
        return f"{self.folder}/{_FILES}"

    @property
    def mark(self) -> str:
        """The file that says that a checkpoint was published here once; no release removes it."""
        return f"{self.claims}/{_MARK}"

    def claim(self, epoch: int, token: str) -> str:
        """The file by which a driver claims the job."""
        return f"{self.claims}/{epoch:06d}-{token}"

    def manifest(self, place: Place) -> str:
        """The file that says what a checkpoint is; alone in its folder."""
        return f"{self.manifests}/{place}.manifest"

    def file(self, name: str) -> str:
        """A file, as ``file_name`` names it."""
        return f"{self.files}/{name}"

    def named_file(self, name: str) -> str:
        """A file that a manifest names, for readers: a manifest may have been forged.

        Raises:
            CheckpointDamaged: the name leads elsewhere.
        """
        if name in {".", ".."} or not set(name).isdisjoint("/\\\0"):
            message = (
                f"a manifest names the stored file {name!r}, which is not in {self.files}: it was "
                "changed after it was written. Restore the manifest from a copy."
            )
            raise CheckpointDamaged(message)
        return self.file(name)


def folder_name(job_name: str) -> str:
    """The name of a job's folder, which leads nowhere else and which every file system takes.

    Of a name that is too long, as much stays as there is room for; a digest tells jobs apart. What
    is left of a folder's name by ``unquote`` has the same folder.
    """
    # Folders that are called "." and ".." are others: the only names that need more than quoting.
    is_other = job_name in {".", ".."}
    quoted = job_name.replace(".", "%2E") if is_other else quote(job_name, safe="")
    if len(quoted) <= _LONGEST:
        return quoted
    ending = f"-{hashlib.sha256(job_name.encode()).hexdigest()[:32]}"
    kept, room = "", _LONGEST - len(ending)
    for character in job_name:
        if len(kept) + len(part := quote(character, safe="")) > room:
            break
        kept += part
    return kept + ending


def file_name(stamp: Stamp, level: int, slot: int, digest: str) -> str:
    """What a file is called that was uploaded for a checkpoint: equal names, equal content."""
    return f"{stamp}-{level:03d}-{slot:04d}-{digest[:32]}"


def place_of_manifest(name: str) -> Place | None:
    """The checkpoint whose manifest has this path in its folder; None if the path is not ours."""
    return _place(_MANIFEST.fullmatch(name))


def places(names: Iterable[str]) -> list[Place]:
    """The checkpoints whose manifests have these paths, the newest first; the rest is ignored."""
    found = (place_of_manifest(name) for name in names)
    return sorted((place for place in found if place is not None), reverse=True)


def place_of(name: str) -> Place | None:
    """The same, also of a part of a manifest."""
    return _place(_PART.match(name))


def _place(found: re.Match[str] | None) -> Place | None:
    if found is None:
        return None
    return Place(int(found[1] or 0), Stamp(int(found[2]), int(found[3])))


def stamp_of(name: str) -> Stamp | None:
    """The checkpoint for which a file was written, also a part of one; None if it is not ours."""
    found = _STAMP.match(name)
    return Stamp(int(found[1]), int(found[2])) if found else None


def epoch_of_claim(name: str) -> int | None:
    """The epoch of the claim that has this name; None if the name is not ours."""
    found = _CLAIM.fullmatch(name)
    return int(found[1]) if found else None


def job_of_manifest(path: str) -> tuple[str, Place] | None:
    """The job and the place of a manifest, given its path in the root folder or in a job's.

    The job's name is empty if the path begins at the job's own folder. None: it is no manifest.
    """
    found = _JOB_OF_MANIFEST.fullmatch(path)
    place = found and place_of_manifest(found[2])
    return (unquote(found[1] or ""), place) if found and place else None
