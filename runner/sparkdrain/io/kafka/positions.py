"""Where to begin and where to stop in a partition; what a user may write for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from apache_beam.utils.timestamp import Timestamp

from sparkdrain.errors import BadOption
from sparkdrain.io.kafka.client import Partition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparkdrain.io.kafka.client import Catalog

PositionKind = Literal["earliest", "latest", "committed", "time", "offsets"]
GivenPosition: TypeAlias = str | datetime | Timestamp | Mapping[tuple[str, int], int]
"""What a user may write for a position."""

_WORDS: tuple[PositionKind, ...] = ("earliest", "latest", "committed")


@dataclass(frozen=True, slots=True)
class Position:
    """A place in every partition that is read.

    Attributes:
        kind: what it goes by.
        millis: the time, for kind ``time``.
        offsets: by partition, for kind ``offsets``.
    """

    kind: PositionKind
    millis: int = 0
    offsets: tuple[tuple[Partition, int], ...] = ()

    def offset_of(self, partition: Partition) -> int | None:
        """The offset that was given for it."""
        return dict(self.offsets).get(partition)


EARLIEST = Position("earliest")
LATEST = Position("latest")


def position(given: GivenPosition, option: str) -> Position:
    """What was given for ``option``.

    Raises:
        BadOption: it is no position.
    """
    if isinstance(given, str) and given in _WORDS:
        return Position(given)
    if isinstance(given, datetime):
        if given.tzinfo is None:
            msg = f"{option}={given!r} has no time zone: say datetime(..., tzinfo=UTC)"
            raise BadOption(msg)
        return Position("time", millis=int(given.timestamp() * 1000))
    if isinstance(given, Timestamp):
        return Position("time", millis=given.micros // 1000)
    if isinstance(given, Mapping):
        offsets = tuple(sorted((Partition(*at), offset) for at, offset in given.items()))
        return Position("offsets", offsets=offsets)
    msg = (
        f"{option}={given!r} is no position: use 'earliest', 'latest', 'committed', a datetime, "
        "a Timestamp, or offsets as {(topic, partition): offset}"
    )
    raise BadOption(msg)


def start_of(catalog: Catalog, partition: Partition, wanted: Position) -> int:
    """The first offset to read.

    Where nothing was committed, or no offset was given, the earliest. A time after the last
    record is the end.
    """
    found = _known(catalog, partition, wanted)
    return catalog.earliest(partition) if found is None else found


def stop_of(catalog: Catalog, partition: Partition, wanted: Position) -> int:
    """The first offset not to read; for a time, that of the first record at it or later."""
    found = _known(catalog, partition, wanted)
    return end_of(catalog, partition) if found is None else found


def end_of(catalog: Catalog, partition: Partition) -> int:
    """The offset after its last record."""
    return catalog.latest([partition])[partition]


def _known(catalog: Catalog, partition: Partition, wanted: Position) -> int | None:
    """The offset of a position, if there is one."""
    match wanted.kind:
        case "latest":
            return end_of(catalog, partition)
        case "time":
            found = catalog.at_time(partition, wanted.millis)
            return end_of(catalog, partition) if found is None else found
        case "committed":
            return catalog.committed(partition)
        case "offsets":
            return wanted.offset_of(partition)
        case "earliest":
            return None


def is_read(partition: Partition, positions: Sequence[Position | None]) -> bool:
    """Whether offsets were given for it, or for no partition at all."""
    given = [one for one in positions if one is not None and one.kind == "offsets"]
    return not given or any(one.offset_of(partition) is not None for one in given)
