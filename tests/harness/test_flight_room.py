"""How many elements a step lets in: as many as users say, and memory allows."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import apache_beam as beam
import pytest

import sparkdrain
from sparkdrain.harness.concurrent.room import FlightRoom, keys_in_flight
from tests.support.in_memory import DEFAULTS, run_in_memory

MIB = 1 << 20
MILLION = 1_000_000


def grown(room, size):
    while room.grow(lambda: size):
        pass
    return room.most


@pytest.mark.parametrize(
    ("asked", "size", "most"),
    [
        (100, MIB, 356),  # the default is let in, whatever it takes
        (1_000, 100, 1_256),
        (MILLION, 0, 64 * MIB // 4096),
        (MILLION, 60 << 10, 64 * MIB // (64 << 10)),
        (MILLION, MIB, 356),
    ],
)
def test_as_many_elements_come_in_as_are_asked_for_and_fit(asked, size, most):
    assert grown(FlightRoom("Ask", asked, 64 * MIB), size) == most


def test_few_elements_come_in_before_their_size_is_known():
    assert FlightRoom("Ask", MILLION, 64 * MIB).most == 356
    assert FlightRoom("Ask", 3, 64 * MIB).most == 259


def test_fewer_elements_than_users_ask_for_are_told_once(caplog):
    room = FlightRoom("Ask", MILLION, 64 * MIB)
    for _ in range(3):
        grown(room, 0)
    assert keys_in_flight("Keys", MILLION, 64 * MIB) == 4096
    first, second = caplog.messages
    assert "'Ask' has 16128 of its 1000000 elements in flight" in first
    assert "raise --shuffle_memory_mb" in first
    assert "'Keys' has 4096 of its 1000000" in second
    assert keys_in_flight("Keys", 1_000, 64 * MIB) == 1_000


class Crowd(beam.DoFn):
    """Counts how many elements are in flight before the first one is complete."""

    most = inside = 0

    async def process(self, element):
        Crowd.inside += 1
        Crowd.most = max(Crowd.most, Crowd.inside)
        await asyncio.sleep(0.05)
        Crowd.inside -= 1


def test_a_million_in_flight_keep_to_the_memory_of_a_slot():
    Crowd.most = 0
    pipeline = beam.Pipeline()
    _ = (
        pipeline
        | beam.Impulse()
        | beam.FlatMap(lambda _: [bytes(40_000)] * 2_000)
        | beam.ParDo(sparkdrain.Concurrently(Crowd(), max_in_flight=MILLION))
    )
    run_in_memory(pipeline, options=replace(DEFAULTS, memory_bytes=8 * 20 * MIB))
    assert 300 < Crowd.most <= 20 * MIB // 40_000
