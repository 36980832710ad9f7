"""Reads a partition: a splittable DoFn that hands over its records in batches."""

from __future__ import annotations

import json
import logging
import time
from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final

import apache_beam as beam
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp
from typing_extensions import override

from sparkdrain.io.errors import RecordsLost
from sparkdrain.io.kafka.client import NAMESPACE, NO_TIME, Partition
from sparkdrain.io.kafka.positions import end_of
from sparkdrain.io.kafka.quiet_log import OncePerMinute
from sparkdrain.io.kafka.shared import acquire, borrow, release
from sparkdrain.io.kafka.spans import NO_END, Element

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkdrain.io.kafka.client import FetchedRecords
    from sparkdrain.io.kafka.shared import Shared, Wanted
    from sparkdrain.io.kafka.spans import SpansOf
    from sparkdrain.io.kafka.watermarks import Watermarks

_LOGGER = logging.getLogger(__name__)
_WAITS = logging.getLogger(f"{__name__}.waits")
_WAITS.addFilter(OncePerMinute())
# How long to wait for a record before others have their turn, by whether the end is known.
# Seconds, as all below.
_WAIT: Final = 0.005
_WAIT_BOUNDED: Final = 0.1
# A partition without anything new is looked at again after a quarter of the time that it has
# been quiet: what comes rarely may wait a little.
_SOONEST: Final = 0.02
_LATEST: Final = 0.5
_OF_QUIET: Final = 0.25
# How long what becomes of a claim should take, so that there is often an occasion to stop.
_CLAIM: Final = 0.004
_MOST: Final = 1024
_FIRST: Final = 16
_PATIENCE: Final = 30.0
_WAITING: Final = (
    "%s: waiting for offset %d, of a range that ends later; either no record was written there, or "
    "a transaction is open, or the brokers are away"
)


class ClaimSize:
    """How many records to claim at once, by how long what becomes of them takes."""

    def __init__(self) -> None:
        self.records = _FIRST

    def took(self, seconds: float) -> None:
        """The last claim, and all that followed from it."""
        if seconds > _CLAIM:
            self.records = max(1, self.records // 2)
        elif seconds < _CLAIM / 2:
            self.records = min(_MOST, self.records * 2)


class PartitionReader(beam.DoFn):
    """Yields `FetchedRecords` after `FetchedRecords` of the records of a partition.

    Args:
        watermarks: what to conclude from records.
        skip_lost: whether records that were deleted before they were read are passed over.
    """

    def __init__(
        self,
        wanted: Wanted,
        watermarks: Watermarks,
        *,
        skip_lost: bool,
        namespace: str = NAMESPACE,
    ) -> None:
        self._wanted = wanted
        self._watermarks = watermarks
        self._skip_lost = skip_lost
        self._namespace = namespace
        self._records = Metrics.counter(namespace, "records_read")
        self._bytes = Metrics.counter(namespace, "bytes_read")
        self._lost = Metrics.counter(namespace, "offsets_lost")

    @override
    def setup(self) -> None:
        self._shared: Shared = acquire(self._wanted)
        self._size = ClaimSize()

    @override
    def teardown(self) -> None:
        release(self._wanted)

    def read(self, element: Element, tracker: Any, watermark: Any) -> Iterator[TimestampedValue]:
        """What ``process`` of all the DoFns below yields."""
        partition = Partition(element[0], element[1])
        offset = tracker.current_restriction().start
        bounded = tracker.current_restriction().stop != NO_END
        lag = Metrics.gauge(self._namespace, f"lag.{partition}")
        while offset < tracker.current_restriction().stop:
            wait = self._patience(partition, bounded=bounded)
            try:
                batch = self._shared.intake.take(partition, offset, wait)
            except RecordsLost as error:
                offset = self._passed_over(partition, offset, tracker, error)
                continue
            if batch:
                for piece in self._claimed(offset, batch, tracker):
                    yield from self._handed_over(piece, watermark)
                    offset = piece.offsets[-1] + 1
                    self._shared.reached[partition] = offset, watermark.current_watermark()
                if offset <= batch.offsets[-1]:
                    return
                self._tell_lag(lag, partition, offset)
            elif batch.after >= tracker.current_restriction().stop:
                break
            else:
                quiet = self._shared.intake.quiet(partition)
                if bounded and quiet > _PATIENCE:
                    _WAITS.warning(_WAITING, partition, offset)
                elif not bounded:
                    self._tell_lag(lag, partition, batch.after)
                    self._catch_up(partition, offset, watermark)
                    self._when_idle(partition, batch.after, watermark)
                pause = max(_SOONEST, min(_LATEST, quiet * _OF_QUIET))
                tracker.defer_remainder(Duration(seconds=pause))
                return
        stop = tracker.current_restriction().stop
        tracker.try_claim((stop, stop))

    def _patience(self, partition: Partition, *, bounded: bool) -> float:
        if bounded:
            return _WAIT_BOUNDED
        # Many quiet partitions must not add up to a long round.
        return _WAIT if self._shared.intake.quiet(partition) < _LATEST else 0.0

    def _passed_over(
        self, partition: Partition, offset: int, tracker: Any, error: RecordsLost
    ) -> int:
        """Claims what is gone, so that no reader looks for it again; where reading goes on."""
        with self._shared.asking:
            catalog = self._shared.catalog
            earliest, latest = catalog.earliest(partition), end_of(catalog, partition)
        if not self._skip_lost or offset >= earliest:
            msg = (
                f"{partition}: offset {offset} is to be read next, but the first one that there "
                f"is, is {earliest}, and the next one will be {latest}. Records were deleted "
                "before they were read, or the topic was made anew. Have the service keep them "
                "longer (Kafka: retention.ms), or pass on_lost='skip' to go on with the first one "
                "that there is."
            )
            raise type(error)(msg) from error
        last = min(earliest, tracker.current_restriction().stop) - 1
        if not tracker.try_claim((offset, last)):
            return offset  # it was split meanwhile
        _LOGGER.warning("%s: offsets %d to %d are gone", partition, offset, last)
        self._lost.inc(last + 1 - offset)
        return last + 1

    def _claimed(
        self, offset: int, batch: FetchedRecords, tracker: Any
    ) -> Iterator[FetchedRecords]:
        """Claims a batch piece by piece, and yields the pieces; what it cannot claim goes back."""
        begin, offsets = 0, batch.offsets
        while begin < len(offsets):
            end = min(begin + self._size.records, len(offsets))
            while not tracker.try_claim((offsets[begin], offsets[end - 1])):
                # What is left of it after a split, if anything is.
                end = bisect_left(offsets, tracker.current_restriction().stop, begin, end)
                if end == begin:
                    self._shared.intake.put_back(offset, batch.part(begin, len(offsets)))
                    return
            offset = offsets[end - 1] + 1
            began = time.monotonic()
            yield batch.part(begin, end)
            self._size.took(time.monotonic() - began)
            begin = end

    def _handed_over(self, batch: FetchedRecords, watermark: Any) -> Iterator[TimestampedValue]:
        if NO_TIME in batch.times:
            batch = batch.timed(int(self._shared.clock.now() * 1000))
        # What is split off while the records are on their way begins with this watermark.
        self._advance(watermark, self._watermarks.after(max(batch.times) * 1000))
        yield TimestampedValue(batch, Timestamp(micros=min(batch.times) * 1000))
        self._records.inc(len(batch))
        self._bytes.inc(sum(map(len, filter(None, batch.values))))

    def _catch_up(self, partition: Partition, offset: int, watermark: Any) -> None:
        """Go as far as the records before ``offset`` have said.

        What was split off between a claim and the watermark that it led to does not know it: Beam
        reads the watermark before it splits.
        """
        behind, then = self._shared.reached.get(partition, (None, None))
        if behind == offset and then is not None:
            self._advance(watermark, then.micros)

    def _when_idle(self, partition: Partition, after: int, watermark: Any) -> None:
        """Whatever the records have said, if there are no new ones the brokers' time says more."""
        if self._watermarks.idle_after is None:
            return
        known = self._shared.ends.end(partition)
        if known is None or known[1] > after:
            return
        self._shared.reads((partition.topic,))
        reached = watermark.current_watermark()
        then = self._shared.clock.at_least(known[0], self._watermarks, reached)
        if then is not None:
            self._advance(watermark, self._watermarks.when_idle(then))

    def _advance(self, watermark: Any, micros: int) -> None:
        current = watermark.current_watermark()
        if current is None or current.micros < micros:
            watermark.set_watermark(Timestamp(micros=micros))

    def _tell_lag(self, lag: Any, partition: Partition, after: int) -> None:
        end = self._shared.intake.end(partition)
        if end is not None:
            lag.set(max(0, end - after))


class CommitOffset:
    """Commits the offset that comes next in a partition; it is the group's then.

    Attributes:
        ident: the partition: the newest offset counts.
        data: all but the connection.
    """

    def __init__(self, wanted: Wanted, partition: Partition, offset: int) -> None:
        self._wanted = wanted
        self._partition = partition
        self._offset = offset
        self.ident = str(partition)
        self.data = json.dumps([partition.topic, partition.number, offset])

    def __call__(self) -> None:
        """Begin to commit; a job does not wait for a broker in the midst of its work."""
        borrow(self._wanted).commits.commit(self._partition, self._offset)

    def settle(self, seconds: float) -> bool:
        """Whether it is committed, after waiting for so long if need be.

        Raises:
            KafkaError: why it is not.
        """
        return borrow(self._wanted).commits.settle(self._partition, self._offset, seconds)


def reader(
    wanted: Wanted,
    spans: SpansOf,
    watermarks: Watermarks,
    *,
    bounded: bool,
    commit: bool,
    skip_lost: bool,
    namespace: str = NAMESPACE,
) -> beam.DoFn:
    """The `PartitionReader` for a transform.

    Args:
        spans: which offsets are read.
        bounded: whether partitions come to an end.
        commit: whether offsets are committed once what was read is safe.
    """
    offsets = beam.DoFn.RestrictionParam(spans)
    estimator = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())

    class Read(PartitionReader):
        def process(
            self, element: Element, tracker: Any = offsets, watermark: Any = estimator
        ) -> Iterator[TimestampedValue]:
            return self.read(element, tracker, watermark)

        if not bounded:
            process = beam.DoFn.unbounded_per_element()(process)

    class ReadAndCommit(PartitionReader):
        @beam.DoFn.unbounded_per_element()
        def process(
            self,
            element: Element,
            # Beam passes it by its position, the others by name.
            finalizer: Any = beam.DoFn.BundleFinalizerParam,
            tracker: Any = offsets,
            watermark: Any = estimator,
        ) -> Iterator[TimestampedValue]:
            partition = Partition(element[0], element[1])
            seen = -1
            for batch in self.read(element, tracker, watermark):
                yield batch
                seen = batch.value.offsets[-1]
            if seen >= 0:
                finalizer.register(CommitOffset(self._wanted, partition, seen + 1))

        def acknowledgement(self, data: str) -> CommitOffset:
            """The finalizer with that data, in another process."""
            topic, number, offset = json.loads(data)
            return CommitOffset(self._wanted, Partition(topic, number), offset)

    kind = ReadAndCommit if commit else Read
    return kind(wanted, watermarks, skip_lost=skip_lost, namespace=namespace)
