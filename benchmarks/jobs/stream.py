"""A source of a stream without IO, that ends: a splittable DoFn over blocks of elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from benchmarks.jobs.numbers import Numbers
from benchmarks.jobs.turns import Shard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

AT_ONCE = 20_000  # elements after which the source hands back what is left of its restriction


class BlocksOf(Numbers):
    """The numbers of a shard's blocks."""

    def initial_restriction(self, shard: tuple[int, ...]) -> OffsetRange:
        return OffsetRange(0, Shard(*shard).blocks)


class EmitBlocks(beam.DoFn):
    """Claims block after block, as (turn, first key, last key); the watermark follows them."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        shard: tuple[int, ...],
        tracker: Any = beam.DoFn.RestrictionParam(BlocksOf()),
        watermark: Any = beam.DoFn.WatermarkEstimatorParam(
            ManualWatermarkEstimator.default_provider()
        ),
    ) -> Iterator[TimestampedValue]:
        mine = Shard(*shard)
        number = tracker.current_restriction().start
        made = 0
        while made < AT_ONCE:
            if not tracker.try_claim(number):
                return
            block = mine.block(number)
            time = Timestamp(micros=block.time_ms * 1000)
            yield TimestampedValue((block.turn, block.keys.start, block.keys.stop), time)
            made += len(block.keys)
            number += 1
            watermark.set_watermark(Timestamp(micros=mine.time_ms(number) * 1000))
        tracker.defer_remainder()


class Stream(beam.PTransform):
    """The elements of all shards, each with the time of its block; unbounded, yet it ends.

    `make(turn, keys)` makes the elements of a block.
    """

    def __init__(
        self, shards: list[Shard], make: Callable[[int, range], Sequence[Any]], element_type: Any
    ) -> None:
        super().__init__()
        self._shards = [(s.first, s.keys, s.turns, s.turn_ms) for s in shards]
        self._make = make
        self._element_type = element_type

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        shards, make = self._shards, self._make

        def elements(turn: int, start: int, stop: int) -> Sequence[Any]:
            return make(turn, range(start, stop))

        return (
            begin
            | "Impulse" >> beam.Impulse()
            | "Shards"
            >> beam.FlatMap(lambda _: shards).with_output_types(tuple[int, int, int, int])
            | "Spread" >> beam.Reshuffle()
            | "Emit" >> beam.ParDo(EmitBlocks()).with_output_types(tuple[int, int, int])
            | "Make" >> beam.FlatMapTuple(elements).with_output_types(self._element_type)
        )
