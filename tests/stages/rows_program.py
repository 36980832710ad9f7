"""Rows of types of the main program, of a function, and nested ones, through all kinds of edges.

Run as a program by ``test_row_types_on_spark.py``, and imported by it.
"""

import dataclasses
import sys
import typing

import apache_beam as beam
from apache_beam import coders
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec


class Place(typing.NamedTuple):
    """A row with a method: a generated type has none."""

    town: str
    zip: int

    def told(self) -> str:
        return f"{self.zip} {self.town}"


@dataclasses.dataclass
class Visit:
    """A row in which another one is."""

    who: str
    place: Place

    def told(self) -> str:
        return f"{self.who} in {self.place.told()}"


def remember(place: type, visit: type) -> beam.DoFn:
    """A DoFn that keeps rows in state, and reads them back."""
    place_coder, visit_coder = (coders.registry.get_coder(type_) for type_ in (place, visit))

    class Remember(beam.DoFn):
        PLACES = BagStateSpec("places", place_coder)
        LAST = ReadModifyWriteStateSpec("last", visit_coder)

        def process(
            self,
            element,
            places=beam.DoFn.StateParam(PLACES),
            last=beam.DoFn.StateParam(LAST),
        ):
            where, who = element
            before = last.read()
            places.add(where)
            last.write(who)
            for each in places.read():
                assert type(each) is place, type(each)
            assert before is None or type(before) is visit, type(before)
            yield who

    return Remember()


def latest(place: type, visit: type) -> beam.CombineFn:
    """A CombineFn whose accumulators are rows."""

    @beam.typehints.with_input_types(visit)
    @beam.typehints.with_output_types(visit)
    class Latest(beam.CombineFn):
        def create_accumulator(self):
            return visit("", place("", 0))

        def add_input(self, accumulator, element):
            return self.merge_accumulators([accumulator, element])

        def merge_accumulators(self, accumulators):
            found = max(accumulators, key=lambda each: each.who)
            assert type(found) is visit, type(found)
            return found

        def extract_output(self, accumulator):
            return accumulator

        def get_accumulator_coder(self):
            return coders.registry.get_coder(visit)

    return Latest()


def rows(pipeline: beam.Pipeline, place: type = Place, visit: type = Visit) -> None:
    """Sends instances of the types over all kinds of edges, and checks their types behind each."""
    coders.registry.register_coder(place, coders.RowCoder)
    coders.registry.register_coder(visit, coders.RowCoder)
    pair = typing.Tuple[place, visit]  # noqa: UP006 - a type that is made here

    def checked(pair):
        where, who = pair
        assert type(where) is place, type(where)
        assert type(who) is visit, type(who)
        assert type(who.place) is place, type(who.place)
        return pair

    def grouped(element):
        where, visits = element
        for who in visits:
            checked((where, who))
        return where.told(), len(list(visits))

    def beside(who, all_visits, by_place):
        assert {type(each) for each in all_visits} == {visit}
        assert {type(each) for each in by_place} == {place}
        assert {type(each) for each in by_place.values()} == {visit}
        return who.told()

    def visits(number):
        where = place("Ulm" if number % 2 else "Bern", number % 2)
        return where, visit(f"w{number}", where)

    pairs = pipeline | beam.Create(range(6)) | beam.Map(visits).with_output_types(pair)
    counts = pairs | beam.GroupByKey() | "Grouped" >> beam.Map(grouped)
    assert_that(counts, equal_to([("0 Bern", 3), ("1 Ulm", 3)]), label="Counts")
    last = pairs | beam.CombinePerKey(latest(place, visit))
    last |= "Combined" >> beam.Map(checked).with_output_types(pair)
    told = last | "Tell" >> beam.Map(lambda each: each[1].told())
    assert_that(told, equal_to(["w4 in 0 Bern", "w5 in 1 Ulm"]), label="Combines")
    spread = pairs | beam.Reshuffle() | "Spread" >> beam.Map(checked).with_output_types(pair)
    kept = spread | beam.ParDo(remember(place, visit)).with_output_types(visit)
    seen = kept | "Beside" >> beam.Map(beside, beam.pvalue.AsList(kept), beam.pvalue.AsDict(last))
    wanted = [f"w{number} in {visits(number)[0].told()}" for number in range(6)]
    assert_that(seen, equal_to(wanted), label="Sides")


if __name__ == "__main__":
    with beam.Pipeline(options=PipelineOptions(sys.argv[1:])) as made:
        rows(made)
