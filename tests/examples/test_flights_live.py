from __future__ import annotations

import json
import time
from collections import defaultdict
from datetime import datetime, timezone
from pathlib import Path

import apache_beam as beam
import flights_live
import pytest
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.options.pipeline_options import PipelineOptions
from flights_files import unpack_tables

from tests.support.in_memory_rounds import run_in_rounds


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> list[flights_live.Departure]:
    tables = unpack_tables(tmp_path_factory.mktemp("flights") / "in")
    return flights_live.departures(tables / "flights.csv", 3)


def test_departures_come_out_of_order_and_the_same_in_every_run(told, tmp_path):
    again = flights_live.departures(unpack_tables(tmp_path / "in") / "flights.csv", 3)
    assert again == told
    left = [departure.left for departure in told]
    assert left != sorted(left)
    assert [d.told for d in told] == sorted(d.told for d in told)


def test_the_last_panes_have_every_flight_that_was_not_too_late(told, tmp_path):
    board = Path(tmp_path) / "board"
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    # All in one round: nothing is late then.
    flights_live.build(pipeline, told, 1e6, board)
    run_in_rounds(pipeline, seconds=60, elements=10**6)
    last = {}
    for line in board.read_text().splitlines():
        day, airport, flights, mean, _ = json.loads(line)
        last[day, airport] = flights, mean
    delays = defaultdict(list)
    for departure in told:
        day = str(datetime.fromtimestamp(departure.left, timezone.utc).date())
        delays[day, departure.airport].append(departure.delay)
    assert last == {key: (len(d), round(sum(d) / len(d), 1)) for key, d in delays.items()}


class Tracked:
    """What a DoFn sees of its restriction, and of its watermark."""

    def __init__(self, size):
        self._size = size
        self.deferred = []

    def current_restriction(self):
        return OffsetRange(0, self._size)

    def try_claim(self, number):
        return number < self._size

    def defer_remainder(self, wait):
        self.deferred.append(wait)

    def set_watermark(self, time):
        pass


def test_the_replay_begins_when_its_element_says(told):
    soon, later = Tracked(len(told)), Tracked(len(told))
    replay = flights_live.Replay(told, 1e-6)
    begin = time.time()
    assert list(replay.process(begin, soon, soon))
    assert list(replay.process(begin + 1000, later, later)) == []
    assert soon.deferred
    assert 990 < float(later.deferred[0]) <= 1000
