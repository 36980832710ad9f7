"""Keys are small for DoFns that share an edge, and for DoFns that Beam calls."""

from __future__ import annotations

from unittest.mock import patch

import apache_beam as beam
import pytest
from apache_beam.coders import BytesCoder, VarIntCoder
from apache_beam.transforms import userstate
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.harness.keyed.inlet import BeamFeeder
from sparkdrain.harness.large_place import LargePlace
from sparkdrain.harness.small_place import SmallPlace
from tests.support.recorded import emitted
from tests.support.scripts import Mark, pairs_in_rounds

STEPS = [("a", 1, 1), ("b", 2, 1), ("a", 3, 2)], Mark(5), [("a", 4, 6), ("b", 5, 6)], Mark(200)


class Sums(beam.DoFn):
    """Sums up the numbers of a key, and says what they are when a timer fires."""

    SUM = userstate.ReadModifyWriteStateSpec("sum", VarIntCoder())
    OVER = userstate.TimerSpec("over", userstate.TimeDomain.WATERMARK)

    def process(
        self, element, total=beam.DoFn.StateParam(SUM), over=beam.DoFn.TimerParam(OVER)
    ) -> None:
        total.write((total.read() or 0) + element[1])
        over.set(Timestamp(100))

    @userstate.on_timer(OVER)
    def on_over(self, key=beam.DoFn.KeyParam, total=beam.DoFn.StateParam(SUM)):
        yield key, total.read()


class SumsByBeam(Sums):
    def process(
        self,
        element,
        _=beam.DoFn.WindowedValueParam,
        total=beam.DoFn.StateParam(Sums.SUM),
        over=beam.DoFn.TimerParam(Sums.OVER),
    ) -> None:
        super().process(element, total, over)


def two(pairs):
    return [pairs | "one" >> beam.ParDo(Sums()), pairs | "other" >> beam.ParDo(SumsByBeam())]


@pytest.mark.parametrize(
    ("count", "of"), [(1, lambda pairs: [pairs | beam.ParDo(SumsByBeam())]), (2, two)]
)
def test_they_are_small_from_turn_to_turn_and_when_timers_fire(count, of):
    def build(p):
        return of(pairs_in_rounds(*STEPS, windows=GlobalWindows())(p)) | beam.Flatten()

    with (
        patch.object(LargePlace, "begin", autospec=True, side_effect=LargePlace.begin) as large,
        patch.object(SmallPlace, "begin", autospec=True, side_effect=SmallPlace.begin) as small,
    ):
        found = emitted(build)
    assert sorted(found) == sorted([("a", 8), ("b", 7)] * count)
    # For each DoFn: three turns with elements and two with timers, or more if rounds are shorter.
    assert small.call_count >= 5 * count
    assert large.call_count == 0


class Keeps(beam.DoFn):
    KEPT = userstate.BagStateSpec("kept", BytesCoder())

    def process(self, element, _=beam.DoFn.WindowedValueParam, kept=beam.DoFn.StateParam(KEPT)):
        kept.add(b"x" * element[1])
        yield element[0], sum(map(len, kept.read()))


def test_a_key_that_outgrows_its_record_goes_on_as_a_large_one():
    # Each element comes in a chunk of its own, and the first is too much for a record.
    steps = [("a", 20_000, 1)], [("a", 1, 1)], Mark(5), [("a", 2, 6), ("b", 3, 6)]

    def build(p):
        return pairs_in_rounds(*steps, windows=GlobalWindows())(p) | beam.ParDo(Keeps())

    with patch.object(LargePlace, "begin", autospec=True, side_effect=LargePlace.begin) as large:
        found = emitted(build, slots=1)
    assert sorted(found) == [("a", 20_000), ("a", 20_001), ("a", 20_003), ("b", 3)]
    assert {call.args[1] for call in large.call_args_list} == {b"a"}


class Outgrowing:
    """A context whose key is too large for a record after the first list of elements."""

    def __init__(self) -> None:
        self.told = []
        self.place = self
        self.window = None
        self.is_outgrown = False

    def begin(self, key):
        self.told.append(f"begin {key.decode()}")
        self.is_outgrown = False

    def end(self):
        self.told.append("end")


def test_a_key_that_outgrows_its_record_amid_a_turn_is_large_for_the_rest_of_it():
    context = Outgrowing()

    def feed(elements):
        context.told.append("feed")
        context.is_outgrown = context.told.count("feed") == 1

    feeder = BeamFeeder(feed, [context], bytes.decode)
    feeder.feed([(b"a", "chunks")], lambda chunks: iter([[], []]), lambda window: False)
    assert context.told == ["begin a", "feed", "end", "begin a", "feed", "end"]
