"""Jobs in several threads share lists in the JVM; none sees one that is not whole yet."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import apache_beam as beam
import pytest
from pyspark import SparkContext

from sparkdrain.stages.spark import exchange

pytestmark = pytest.mark.spark

THREADS = 4
MANY = tuple(range(2000))
"""Each takes a round trip: the others come while the first list is filled."""
LATER = 0.02
"""Seconds by which each thread begins after the one before, if they are not to begin at once."""


@pytest.fixture
def ways(pipeline):
    """Of a session that no job has used yet."""
    p = pipeline()
    _ = p | beam.Create([1])
    p.run().wait_until_finish()
    return exchange.JvmGate(SparkContext.getOrCreate())


def at_once(ask, later=0.0):
    """What ``ask`` gives to each of several threads, which begin so many seconds apart."""
    begin = Barrier(THREADS)

    def asked(number):
        begin.wait()
        time.sleep(number * later)
        return ask()

    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(asked, range(THREADS)))


def test_a_list_has_all_its_numbers_for_everybody(ways):
    assert at_once(lambda: ways.numbers(MANY).size(), LATER) == [len(MANY)] * THREADS


def test_a_choice_of_partitions_has_all_of_them_for_everybody(ways):
    assert at_once(lambda: ways.chosen(MANY).size(), LATER) == [len(MANY)] * THREADS


def test_places_are_all_there_for_everybody(ways):
    places = tuple(f"host-{number}" for number in range(30))
    slots = at_once(lambda: ways.located(places).getNumPartitions())
    counts = at_once(lambda: ways.located(places).count())
    assert slots == [slots[0]] * THREADS
    assert counts == [len(places)] * THREADS


def test_a_list_is_made_once(ways):
    again = ways.numbers(MANY)
    assert ways.numbers(tuple(range(2000))) is again
    assert again.size() == len(MANY)


def test_threads_that_come_at_one_time_get_one_gate(ways, monkeypatch):
    monkeypatch.setattr(exchange, "_GATES", {})
    gates = at_once(lambda: exchange.gate(SparkContext.getOrCreate()))
    assert all(each is gates[0] for each in gates)
