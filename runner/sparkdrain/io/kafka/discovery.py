"""Finds partitions: those that there are, and those that are made while the pipeline runs."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import apache_beam as beam
from apache_beam.coders import Coder
from apache_beam.io.iobase import RestrictionProgress, RestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Duration, Timestamp
from typing_extensions import override

from sparkdrain.io.kafka.client import Partition
from sparkdrain.io.kafka.positions import Position, is_read
from sparkdrain.io.kafka.shared import acquire, release

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sparkdrain.io.kafka.shared import Shared, Wanted
    from sparkdrain.io.kafka.watermarks import Watermarks

# How long to wait for an answer, and when to look again whether there is one; seconds.
_WAIT: Final = 0.02
_AGAIN: Final = 0.1
_WATERMARK: Final = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())


@dataclass(frozen=True, slots=True)
class Known:
    """A restriction: the partitions that were found already.

    Attributes:
        partitions: sorted.
        begun: whether there was an answer yet.
    """

    partitions: tuple[Partition, ...] = ()
    begun: bool = False


class KnownCoder(Coder):
    """Encodes `Known` as JSON."""

    @override
    def encode(self, value: Known) -> bytes:
        return json.dumps([value.begun, value.partitions]).encode()

    @override
    def decode(self, encoded: bytes) -> Known:
        begun, partitions = json.loads(encoded)
        return Known(tuple(Partition(*one) for one in partitions), begun)

    def is_deterministic(self) -> bool:
        """True: equal values have equal encodings."""
        return True

    @override
    def to_type_hint(self) -> Any:
        return Known


class KnownTracker(RestrictionTracker):
    """Claims partitions that are new; goes on until it is stopped."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._stopped = False

    def current_restriction(self) -> Known:
        """What was known at first, and has been claimed since."""
        return self._known

    def current_progress(self) -> RestrictionProgress:
        """Always the same: as much is left as ever."""
        return RestrictionProgress(fraction=0.0)

    def try_claim(self, position: tuple[Partition, ...]) -> bool:
        """Claim new partitions; none of them if it was stopped."""
        if self._stopped:
            return False
        self._known = Known(tuple(sorted({*self._known.partitions, *position})), begun=True)
        return True

    def try_split(self, fraction_of_remainder: float) -> tuple[Known, Known] | None:
        """Stops it; what is left is to look for others."""
        if self._stopped:
            return None
        self._stopped = True
        return self._known, self._known

    def check_done(self) -> bool:
        """True: the restriction has no end that could be missed."""
        return True

    def is_bounded(self) -> bool:
        """False: partitions may come at any time."""
        return False


class KnownOf(RestrictionProvider):
    """Provides restrictions that know of no partition at first."""

    @override
    def initial_restriction(self, element: Any) -> Known:
        return Known()

    @override
    def create_tracker(self, restriction: Known) -> KnownTracker:
        return KnownTracker(restriction)

    def restriction_size(self, element: Any, restriction: Known) -> int:
        """Always 1: there is one question to ask."""
        return 1

    @override
    def restriction_coder(self) -> KnownCoder:
        return KnownCoder()

    def truncate(self, element: Any, restriction: Known) -> None:
        """A job that drains looks for nothing new."""
        del element, restriction


_KNOWN: Final = beam.DoFn.RestrictionParam(KnownOf())


@dataclass(frozen=True)
class Topics:
    """What is read.

    Attributes:
        names: the topics that are named one by one.
        pattern: that their names match, instead.
        positions: offsets that were given; partitions without any are not read then.
    """

    names: tuple[str, ...]
    pattern: str | None
    positions: tuple[Position | None, ...] = ()

    def of(self, shared: Shared) -> list[Partition]:
        """The partitions that there are now."""
        with shared.asking:
            found = shared.catalog.partitions(self.names, self.pattern)
        shared.reads(one.topic for one in found)
        return [one for one in found if is_read(one, self.positions)]


class FindPartitions(beam.DoFn):
    """Yields every partition that there is when it is asked, once."""

    def __init__(self, wanted: Wanted, topics: Topics) -> None:
        self._wanted = wanted
        self._topics = topics

    @override
    def setup(self) -> None:
        self._shared = acquire(self._wanted)

    @override
    def teardown(self) -> None:
        release(self._wanted)

    @override
    def process(self, _: bytes) -> Iterator[tuple[str, int, bool]]:
        for topic, number in self._topics.of(self._shared):
            yield topic, number, False


class WatchPartitions(beam.DoFn):
    """Yields every partition once it is there, for as long as the pipeline runs.

    A record of a partition that is not known yet is not older than the last time that partitions
    were asked for, by the brokers' clock, but for what records may be out of order: so far its
    watermark goes.

    Args:
        every: seconds after which to look again.
        watermarks: how far records may be out of order.
    """

    def __init__(
        self, wanted: Wanted, topics: Topics, every: float, watermarks: Watermarks
    ) -> None:
        self._wanted = wanted
        self._topics = topics
        self._every = every
        self._watermarks = watermarks

    @override
    def setup(self) -> None:
        self._shared = acquire(self._wanted)

    @override
    def teardown(self) -> None:
        release(self._wanted)

    @beam.DoFn.unbounded_per_element()
    @override
    def process(
        self,
        _: bytes,
        tracker: Any = _KNOWN,
        watermark: Any = _WATERMARK,
    ) -> Iterator[TimestampedValue]:
        answer = self._shared.partitions.ask(self._ask, _WAIT)
        if answer is None:
            tracker.defer_remainder(Duration(seconds=_AGAIN))
            return
        asked, found = answer
        known = tracker.current_restriction()
        new = tuple(sorted(set(found) - set(known.partitions)))
        if not tracker.try_claim(new):
            return
        # They are to hold back what comes after them, until their own watermarks are known.
        since = watermark.current_watermark() or MIN_TIMESTAMP
        for topic, number in new:
            yield TimestampedValue((topic, number, known.begun), since)
        then = self._shared.clock.at_least(asked, self._watermarks, watermark.current_watermark())
        if then is None:
            tracker.defer_remainder(Duration(seconds=_AGAIN))
            return
        complete = Timestamp(micros=self._watermarks.after(int(then * 1_000_000)))
        if complete > since:
            watermark.set_watermark(complete)
        tracker.defer_remainder(Duration(seconds=self._every))

    def _ask(self) -> tuple[float, Sequence[Partition]]:
        asked = time.monotonic()
        return asked, self._topics.of(self._shared)
