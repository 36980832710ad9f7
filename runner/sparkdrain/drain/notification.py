"""The request to drain one run, and its one written form."""

from __future__ import annotations

import datetime as dt
import enum
import json
import uuid
from dataclasses import dataclass
from typing import Any, Final

from sparkdrain.errors import BadOption, SparkDrainError

VERSION: Final = 1
"""Number of the written form; raised whenever a field is removed or means something else."""

EPOCH: Final = dt.datetime.fromtimestamp(0, dt.timezone.utc)

_FIELDS: Final = ("version", "uuid", "run_id", "mode", "time")
_LONGEST_SHOWN: Final = 200


class DrainMode(enum.Enum):
    """What a drain empties; the name is what is written down."""

    DEFAULT = "DEFAULT"
    """Everything the runner keeps: shuffles, windows, timers, residuals. User state stays."""


class UnreadableNotification(SparkDrainError):
    """Bytes are not a drain notification of a version that is known; says what is wrong."""


@dataclass(frozen=True, slots=True)
class DrainNotification:
    """A request to drain one run of a job; a value, valid by construction.

    Attributes:
        id: tells this request from others; also its key in a metadata store.
        run_id: the run that is to be drained. Other runs, of the same job too, ignore the request.
        time: when it was asked for, in UTC.
    """

    id: uuid.UUID
    run_id: str
    mode: DrainMode
    time: dt.datetime

    def __post_init__(self) -> None:
        if not self.run_id.strip():
            message = "The run id of a drain notification is blank: name the run to drain."
            raise BadOption(message)
        if self.time.utcoffset() != dt.timedelta(0):
            message = f"The time of a drain notification is in UTC, not {self.time.isoformat()}."
            raise ValueError(message)

    @classmethod
    def create(cls, run_id: str, now: int) -> DrainNotification:
        """A new request.

        Args:
            now: microseconds since 1970.

        Raises:
            BadOption: the run id is blank.
        """
        time = EPOCH + dt.timedelta(microseconds=now)
        return cls(uuid.uuid4(), run_id, DrainMode.DEFAULT, time)

    def encode(self) -> bytes:
        """As JSON, which people can read in a store."""
        fields = {
            "version": VERSION,
            "uuid": str(self.id),
            "run_id": self.run_id,
            "mode": self.mode.name,
            "time": self.time.isoformat(timespec="microseconds"),
        }
        return json.dumps(fields).encode()

    @classmethod
    def decode(cls, data: bytes) -> DrainNotification:
        """The inverse of ``encode``; ignores fields that this release does not know.

        Raises:
            UnreadableNotification: says what is wrong with ``data``.
        """
        try:
            return _read(data)
        except (ValueError, TypeError, RecursionError, BadOption) as error:
            shown = repr(data[:_LONGEST_SHOWN])
            message = f"This is not a drain notification: {error} It reads {shown}."
            raise UnreadableNotification(message) from error


def _read(data: bytes) -> DrainNotification:
    fields: Any = json.loads(data.decode("utf-8"), object_pairs_hook=_without_repetition)
    if not isinstance(fields, dict):
        message = f"It is no JSON object but a {type(fields).__name__}."
        raise TypeError(message)
    if type(fields.get("version")) is not int or fields["version"] != VERSION:
        message = (
            f"Its version is {fields.get('version')!r}, and this release knows {VERSION} only."
        )
        raise ValueError(message)
    if missing := sorted(set(_FIELDS) - set(fields)):
        message = f"Missing: {', '.join(missing)}."
        raise ValueError(message)
    for name in _FIELDS[1:]:
        if not isinstance(fields[name], str):
            message = f"{name} is not text but {fields[name]!r}."
            raise TypeError(message)
    if fields["mode"] not in DrainMode.__members__:
        known = ", ".join(DrainMode.__members__)
        message = f"The mode {fields['mode']!r} is unknown; known: {known}."
        raise ValueError(message)
    return DrainNotification(
        _uuid(fields["uuid"]),
        fields["run_id"],
        DrainMode[fields["mode"]],
        _time(fields["time"]),
    )


def _uuid(text: str) -> uuid.UUID:
    read = uuid.UUID(text)
    if str(read) != text:
        message = f"The uuid {text!r} is not written as {read}."
        raise ValueError(message)
    return read


def _time(text: str) -> dt.datetime:
    read = dt.datetime.fromisoformat(text)
    if read.utcoffset() is None:
        message = f"The time {text!r} lacks its zone."
        raise ValueError(message)
    return read.astimezone(dt.timezone.utc)


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        message = "A field is there twice."
        raise ValueError(message)
    return fields
