"""How far a partition's event time has got: by its newest record, or by the brokers' time."""

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
            ago: its watermark follows the brokers' time at that distance. It is never less than
            ``out_of_order``. With None, a partition without records holds everything up: right
            for timestamps that have nothing to do with the clock.
        clock_ahead: by how many seconds the clock of a worker may be ahead, for brokers that do
            not tell their time. An idle partition is then complete up to the newest record of its
            topics and the time that has passed since, or up to so many seconds before the
            worker's clock, whichever is later. ``math.inf`` goes by records alone.
    """

    out_of_order: float = 5.0
    idle_after: float | None = 10.0
    clock_ahead: float = 3600.0

    def __post_init__(self) -> None:
        """Raises `BadOption` for what cannot be."""
        if min(self.out_of_order, self.idle_after or 0.0, self.clock_ahead) < 0:
            msg = f"{self}: seconds cannot be negative"
            raise BadOption(msg)

    @classmethod
    def log_append_time(
        cls, idle_after: float | None = 1.0, clock_ahead: float = 3600.0
    ) -> Watermarks:
        """Watermarks of topics whose brokers set the timestamps, which only grow.

        Args:
            idle_after: has to cover what the clocks of brokers differ by.
            clock_ahead: see the class.
        """
        return cls(out_of_order=0.0, idle_after=idle_after, clock_ahead=clock_ahead)

    def after(self, newest: int) -> int:
        """The watermark after records, the newest of which is of that time; microseconds."""
        return min(max(newest - int(self.out_of_order * 1_000_000), _BEGIN), _END)

    def passed(self, watermark: int) -> float:
        """A time that is over if the watermark is there; seconds since 1970, from microseconds."""
        return watermark / 1_000_000 + self.out_of_order

    def when_idle(self, asked: float) -> int:
        """The watermark if nothing new was there when the broker was asked.

        Args:
            asked: the brokers' time then, in seconds since 1970.

        Returns:
            Microseconds.
        """
        distance = max(self.idle_after or 0.0, self.out_of_order)
        return int(min(max((asked - distance) * 1_000_000, _BEGIN), _END))
