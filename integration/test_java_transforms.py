"""Python programs use transforms of Java's SDK, where no Docker is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import apache_beam as beam
import pytest
from apache_beam.io.kafka import ReadFromKafka, WriteToKafka
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.external import JavaExternalTransform
from java_expansion import expansion_service
from kafka_broker import KafkaBroker
from kafka_topics import Topics

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Iterator[str]:
    """The address of an expansion service; no Docker is found from here on."""
    if shutil.which("javac") is None:
        pytest.skip("there is no Java compiler here")
    places = os.environ["PATH"].split(os.pathsep)
    without = [place for place in places if not (Path(place) / "docker").exists()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", os.pathsep.join(without))
        with expansion_service(tmp_path_factory.mktemp("expansion")) as address:
            yield address


def _totals(pipeline: beam.Pipeline, service: str) -> None:
    """State, timers and a combine in Java, between two steps in Python."""
    pairs = beam.Create([(f"key {n % 3}", n) for n in range(300)])
    numbers = pipeline | pairs.with_output_types(tuple[str, int])
    totals = numbers | JavaExternalTransform("Totals", service).of(2)
    expected = [(f"key {key}", 2 * sum(range(key, 300, 3))) for key in range(3)]
    assert_that(totals | beam.Map(lambda pair: pair), equal_to(expected))


def test_java_runs_between_python_steps_from_staged_jars(on, service):
    with on("local[2]") as pipeline:
        _totals(pipeline, service)


def test_executors_on_two_hosts_run_java(on, service, cluster):
    with on(cluster.url) as pipeline:
        _totals(pipeline, service)


@pytest.fixture(scope="module")
def topics() -> Iterator[Topics]:
    with KafkaBroker() as broker:
        yield Topics(broker.address)


def _config(topics: Topics) -> dict[str, str]:
    return {"bootstrap.servers": topics.address, "auto.offset.reset": "earliest"}


@pytest.mark.parametrize("master", ["local[2]", "two hosts"])
def test_records_that_java_writes_to_kafka_are_those_that_it_reads(
    on, service, topics, master, request
):
    if master != "local[2]":
        master = request.getfixturevalue("cluster").url
    records = [(b"%d" % n, b"value %d" % n) for n in range(100)]
    topic, config = topics.make(2), _config(topics)
    with on(master) as pipeline:
        _ = (
            pipeline
            | beam.Create(records).with_output_types(tuple[bytes, bytes])
            | WriteToKafka(config, topic, expansion_service=service)
        )
    assert len(topics.read(topic, 2)) == len(records)
    with on(master) as pipeline:
        read = pipeline | ReadFromKafka(
            config, [topic], max_num_records=len(records), expansion_service=service
        )
        assert_that(read | beam.Map(lambda pair: pair), equal_to(records))


def test_a_stream_in_java_and_python_is_drained_with_every_record_once(on, service, topics):
    source, target, config = topics.make(2), topics.make(), _config(topics)
    topics.write(source, [(n % 2, b"key", b"%d" % n) for n in range(100)])
    pipeline = on("local[2]", "--streaming")
    _ = (
        pipeline
        | ReadFromKafka(config, [source], expansion_service=service)
        | beam.MapTuple(lambda key, value: (key, value + b" seen")).with_output_types(
            tuple[bytes, bytes]
        )
        | WriteToKafka(config, target, expansion_service=service)
    )
    result = pipeline.run()
    try:
        wait_until(lambda: len(topics.read(target)) >= 100, 300)
        topics.write(source, [(n % 2, b"key", b"%d" % n) for n in range(100, 150)])
        wait_until(lambda: len(topics.read(target)) >= 150, 120)
        result.drain()
        assert str(result.wait_until_finish()) == "DRAINED"
    finally:
        result.cancel()
    assert sorted(topics.read(target)) == sorted(b"%d seen" % n for n in range(150))
