"""The transforms are Beam's alone: other runners run them too, and the example."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import apache_beam as beam
from apache_beam.testing.util import assert_that, equal_to

from sparkdrain.io.kafka import ReadFromKafka, WriteToKafka

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

import kafka_counts


def test_beams_own_runner_reads_and_writes(kafka):
    kafka.topic("t", 3)
    kafka.topic("out")
    for number in range(60):
        kafka.put("t", number % 3, b"%d" % number)
    with beam.Pipeline(runner="FnApiRunner") as p:
        read = p | ReadFromKafka("fake", "t", stop="latest")
        assert_that(read, equal_to([(None, b"%d" % number) for number in range(60)]))
        _ = read | WriteToKafka("fake", "out")
    assert sorted(kafka.values("out")) == sorted(b"%d" % number for number in range(60))


def test_the_example_counts_clicks(kafka):
    kafka.topic("clicks", 2)
    kafka.topic("counts")
    for number in range(40):
        key = b"home" if number % 4 else b"cart"
        kafka.put("clicks", number % 2, b"", key=key, time=1000 * number)
    kafka_counts.main(["--runner=FnApiRunner", "--stop=latest", "--window=20"])
    found = [json.loads(value) for value in kafka.values("counts")]
    assert sorted((one["key"], one["window"], one["count"]) for one in found) == [
        ("cart", "1970-01-01T00:00:00+00:00", 5),
        ("cart", "1970-01-01T00:00:20+00:00", 5),
        ("home", "1970-01-01T00:00:00+00:00", 15),
        ("home", "1970-01-01T00:00:20+00:00", 15),
    ]
