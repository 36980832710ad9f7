"""How far a partition's event time has got: the newest record, and the clock if there is none."""

from __future__ import annotations

from dataclasses import dataclass

from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP

from sparkdrain.errors import BadOption

_BEGIN: int = MIN_TIMESTAMP.micros
_END: int = MAX_TIMESTAMP.micros


@dataclass(frozen=True, slots=True)
class Watermarks:
    """What may be concluded from the records of a partition about those that are still to come.

    Attributes:
        out_of_order: by how many seconds a record may be older than one before it.
        idle_after: a partition without anything new is taken to be complete up to so many seconds
            ago: its watermark follows the clock at that distance. It is never less than
            ``out_of_order``. With None, a partition without records holds everything up: right
            for timestamps that have nothing to do with the clock.
    """

    out_of_order: float = 5.0
    idle_after: float | None = 10.0

    def __post_init__(self) -> None:
        """Raises `BadOption` for what cannot be."""
        if self.out_of_order < 0 or (self.idle_after is not None and self.idle_after < 0):
            msg = f"{self}: seconds cannot be negative"
            raise BadOption(msg)

    @classmethod
    def log_append_time(cls, idle_after: float | None = 1.0) -> Watermarks:
        """For topics whose brokers set the timestamps: they only grow.

        Args:
            idle_after: has to cover what the clocks of brokers and workers differ by.
        """
        return cls(out_of_order=0.0, idle_after=idle_after)

    def after(self, newest: int) -> int:
        """The watermark after records, the newest of which is of that time; microseconds."""
        return min(max(newest - int(self.out_of_order * 1_000_000), _BEGIN), _END)

    def when_idle(self, asked: float) -> int | None:
        """The watermark if nothing new was there when the broker was asked, seconds since 1970.

        Returns:
            Microseconds; None if it says nothing.
        """
        if self.idle_after is None:
            return None
        distance = max(self.idle_after, self.out_of_order)
        return min(max(int((asked - distance) * 1_000_000), _BEGIN), _END)
