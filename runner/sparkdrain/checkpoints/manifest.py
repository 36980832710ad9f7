"""What a checkpoint is: the values, and the text in which they are kept.

The text has three lines: the format, a checksum of the third, and JSON. Bytes are in base 64. The
first line stays what it is in every format, so that old releases can tell that a file is newer.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sparkdrain.checkpoints.paths import Stamp
from sparkdrain.errors import CheckpointDamaged, CheckpointTooNew

if TYPE_CHECKING:
    from collections.abc import Mapping

_T = TypeVar("_T")

FORMAT: Final = 1
"""Raised with every change of what a manifest means. Readers of older ones belong here."""

_LONGEST_FORMAT: Final = 9
"""Digits; Python refuses to read a number of thousands of them."""

_TITLE: Final = "sparkdrain checkpoint, format "


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of a slot's state.

    Attributes:
        name: its path in the store's directory, with slashes.
        size: in bytes.
        digest: SHA-256 of its content, hexadecimal.
        path: what it is called in storage, see ``paths.file_name``; empty if it has no content.
    """

    name: str
    size: int
    digest: str
    path: str


@dataclass(frozen=True, slots=True)
class ShardState:
    """All that is kept of one slot of one level.

    Attributes:
        report: what it reported last, for the driver that goes on.
    """

    level: int
    slot: int
    files: tuple[FileEntry, ...]
    report: bytes = b""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A checkpoint: all that is needed to go on with a job.

    Attributes:
        number: counts the job's checkpoints.
        round: the last round that it covers.
        created: microseconds since 1970.
        fingerprint: by name of a piece of state, what it is; see ``differences``.
        shards: the state of each slot of each level.
        driver: what else the driver wants to know again.
    """

    job_name: str
    run_id: str
    epoch: int
    number: int
    round: int
    created: int
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    slots: int = 0
    shards: tuple[ShardState, ...] = ()
    driver: bytes = b""

    @property
    def stamp(self) -> Stamp:
        """The name of the checkpoint."""
        return Stamp(self.epoch, self.number)

    def entries(self) -> dict[str, FileEntry]:
        """The files that it needs, by what they are called in storage."""
        return {file.path: file for shard in self.shards for file in shard.files if file.path}


def differences(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Why a job with the state ``new`` cannot go on with the state ``old``, a line for each reason.

    State that is new is none: it begins empty.
    """
    lines = []
    for name, kept in sorted(old.items()):
        wanted = new.get(name)
        if wanted is None:
            lines.append(f"{name}: was {kept}, and is not there any more")
        elif wanted != kept:
            lines.append(f"{name}: was {kept}, is {wanted}")
    return lines


def missing(manifest: Manifest, listed: Mapping[str, int]) -> list[str]:
    """What is wrong with the files that a checkpoint needs, going by names and sizes only."""
    lines = []
    for path, file in sorted(manifest.entries().items()):
        size = listed.get(path)
        if size is None:
            lines.append(f"{path} is missing")
        elif size != file.size:
            lines.append(f"{path} has {size} bytes instead of {file.size}")
    return lines


def encode(manifest: Manifest) -> bytes:
    """The text that is kept."""
    body = json.dumps(asdict(manifest), default=_plain, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f"{_TITLE}{FORMAT}\n{digest}\n{body}\n".encode()


def decode(data: bytes, path: str) -> Manifest:
    """The inverse of ``encode``.

    Args:
        path: where it was read, for messages.

    Raises:
        CheckpointDamaged: this is not, or not all, of what was written; or it has other fields.
        CheckpointTooNew: a newer release wrote it.
    """
    title, _, rest = data.partition(b"\n")
    number = title.removeprefix(_TITLE.encode())
    known = number.isdigit() and len(number) <= _LONGEST_FORMAT
    if number == title or not number.isdigit() or (known and not int(number)):
        message = f"{path} is no manifest of a checkpoint, or is damaged: it begins {title[:40]!r}"
        raise CheckpointDamaged(message)
    if not known or int(number) > FORMAT:
        shown = number[:_LONGEST_FORMAT].decode() + ("" if known else "...")
        message = (
            f"{path} has format {shown}; this release reads formats up to {FORMAT}. Resume "
            "the job with the release that wrote it, or a later one."
        )
        raise CheckpointTooNew(message)
    digest, _, body = rest.partition(b"\n")
    if not body.endswith(b"\n") or hashlib.sha256(body[:-1]).hexdigest().encode() != digest:
        message = (
            f"{path} is damaged: its checksum does not fit what it holds ({len(data)} bytes). "
            "Restore the file from a copy; or remove it and resume from the checkpoint before, if "
            "what came after that one may happen again."
        )
        raise CheckpointDamaged(message)
    try:
        return _manifest(json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message = (
            f"{path} is whole, but this release cannot read it ({error!r}): it was written by one "
            f"that kept other things in format {FORMAT}, or was changed. Resume the job with that "
            "release; or remove the file and resume from the checkpoint before, if what came after "
            "that one may happen again."
        )
        raise CheckpointDamaged(message) from error


def _manifest(found: dict[str, Any]) -> Manifest:
    shards = tuple(
        ShardState(
            shard["level"],
            shard["slot"],
            tuple(_checked(FileEntry(**_known(FileEntry, file))) for file in shard["files"]),
            base64.b64decode(shard["report"]),
        )
        for shard in found["shards"]
    )
    driver = base64.b64decode(found["driver"])
    parts = {**_known(Manifest, found), "shards": shards, "driver": driver}
    manifest = _checked(Manifest(**parts))
    for shard in manifest.shards:
        _checked(shard)
    for name, what in found["fingerprint"].items():
        if not isinstance(what, str):
            message = f"fingerprint of {name!r} is {what!r}"
            raise TypeError(message)
    return manifest


def _known(cls: Any, found: dict[str, Any]) -> dict[str, Any]:
    """The fields of ``cls``; a newer release may have written others, too."""
    names = {field.name for field in fields(cls)}
    return {name: value for name, value in found.items() if name in names}


def _checked(made: _T) -> _T:
    """``made``, a dataclass, if its numbers are whole numbers from 0 on and its texts are texts.

    Raises:
        TypeError: names the field.
    """
    for each in fields(made):  # type: ignore[arg-type]
        value = getattr(made, each.name)
        right = {
            "int": type(value) is int and value >= 0,
            "str": isinstance(value, str),
        }
        if not right.get(str(each.type), True):
            message = f"{each.name} is {value!r}"
            raise TypeError(message)
    return made


def _plain(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    message = f"{type(value).__name__} cannot be kept in a manifest"
    raise TypeError(message)
