from __future__ import annotations

import itertools
import json
import threading
from collections import defaultdict
from datetime import datetime, timezone

import apache_beam as beam
import enrich_live
import flights_live
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from flights_files import unpack_tables

from tests.support.in_memory_rounds import run_in_rounds


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return unpack_tables(tmp_path_factory.mktemp("flights") / "in")


def test_each_departure_has_the_wind_of_its_hour_though_calls_are_slow_or_refused(tables, tmp_path):
    told = flights_live.departures(tables / "flights.csv", 1)[:300]
    winds = enrich_live.winds(tables / "weather.csv")
    board, asked, refused = tmp_path / "board", itertools.count(), itertools.count()
    slow = lambda: 0.2 if next(asked) % 100 == 50 else 0.0
    refuses = lambda: next(refused) % 50 == 7
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    with enrich_live.WeatherService(winds, slow, refuses) as service:
        enrich_live.build(pipeline, told, 1e6, board, service.port)
        run_in_rounds(pipeline, seconds=60, elements=10**6)
        table = service.table(0.0)
    expected = defaultdict(list)
    for departure in told:
        wind = winds.get(enrich_live.path_of(departure.airport, departure.left))
        kind = "unknown" if wind is None else "windy" if wind >= 12 else "calm"
        day = str(datetime.fromtimestamp(departure.left, timezone.utc).date())
        expected[day, f"{departure.airport} {kind}"].append(departure.delay)
    seen = {}
    for line in board.read_text().splitlines():
        day, airport, flights, mean, _ = json.loads(line)
        assert (day, airport) not in seen
        seen[day, airport] = flights, mean
    assert seen == {key: (len(d), round(sum(d) / len(d), 1)) for key, d in expected.items()}
    assert {kind for _, kind in seen} >= {"EWR calm", "EWR windy"}
    assert f"0 calls in flight, {len(told):,} answered" in table
    assert ", 6 refused" in table


def test_the_table_shows_the_calls_in_flight_that_wait_longest():
    may_end = threading.Event()
    service = enrich_live.WeatherService({}, lambda: may_end.wait(20) and 0.0, lambda: False)

    def call(path):
        with service.answering(path):
            pass

    calls = [threading.Thread(target=call, args=(f"/JFK/{hour * 3600}",)) for hour in range(7)]
    for thread in calls:
        thread.start()
        while f"{calls.index(thread) + 1} calls" not in service.table(0.0):
            pass
    lines = service.table(0.0).split("\n")
    may_end.set()
    for thread in calls:
        thread.join()
    assert lines[1] == "7 calls in flight, 0 answered, 0 refused"
    assert [line.split(" s  ")[1] for line in lines[2:7]] == [
        f"JFK 1970-01-01 0{hour}:00" for hour in range(5)
    ]
    assert "0 calls in flight, 7 answered" in service.table(0.0)
