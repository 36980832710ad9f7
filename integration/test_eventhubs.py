"""Event Hubs, by AMQP against a stand-in and by Kafka's protocol: read, write, resume, drain."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from eventhubs_server import KEY, EventHubsServer
from kafka_broker import KafkaBroker
from kafka_topics import Topics
from process_program import noted

from sparkdrain.errors import SparkDrainError
from sparkdrain.io.eventhubs import OutgoingEvent, ReadFromEventHubs, WriteToEventHubs
from sparkdrain.io.eventhubs.service import HubService
from sparkdrain.io.eventhubs.settings import hub_settings
from sparkdrain.io.kafka import ReadFromKafka
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

PROGRAM = Path(__file__).parent / "hub_totals.py"
SECONDS = 240
KEYS = 5
SECRET = "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=tests;SharedAccessKey=a-secret-key"


@pytest.fixture(scope="module")
def hubs():
    with EventHubsServer({"numbers": 3, "totals": 2, "batch": 3}) as server:
        yield server


def _put(server, hub, events):
    settings = hub_settings(hub, server.connection_string, None)
    outgoing = HubService(settings).open_client().outgoing()
    for value, key in events:
        outgoing.add(value, key, None, ())
    assert outgoing.send() == len(events)
    outgoing.close()


def test_a_batch_job_writes_events_and_another_reads_each_once(hubs, on):
    secret = hubs.connection_string
    events = [(None, b"%d" % number) for number in range(500)]
    events += [(b"key-%d" % (number % 7), b"k%d" % number) for number in range(50)]
    with on("local[2]") as pipeline:
        _ = pipeline | beam.Create(events) | WriteToEventHubs("batch", connection_string=secret)
        more = [OutgoingEvent(b"to-one", partition=1, properties=(("name", b"value"),))]
        _ = (
            pipeline
            | "One" >> beam.Create(more)
            | "Write one" >> WriteToEventHubs("batch", connection_string=secret)
        )
    with on("local[2]") as pipeline:
        reading = ReadFromEventHubs(
            "batch", connection_string=secret, stop="latest", with_metadata=True
        )
        found = pipeline | reading
        pairs = found | beam.Map(lambda event: (event.key, event.value))
        assert_that(pairs, equal_to([*events, (None, b"to-one")]))
        told = (
            found
            | beam.Filter(lambda event: event.properties)
            | beam.Map(lambda event: (event.hub, event.partition, event.properties))
        )
        expected = [("batch", 1, (("name", b"value"),))]
        assert_that(told, equal_to(expected), label="properties")


def test_a_hub_that_is_not_there_is_named_and_no_secret_is(hubs, on):
    secret = hubs.connection_string
    with pytest.raises((SparkDrainError, RuntimeError)) as raised, on("local[2]") as pipeline:
        _ = pipeline | ReadFromEventHubs("nowhere", connection_string=secret, stop="latest")
    assert "nowhere" in str(raised.value)
    assert KEY not in str(raised.value)


@pytest.fixture
def events_that_are_gone():
    with EventHubsServer({"numbers": 1}, begin=10) as server:
        yield server


@pytest.mark.slow
def test_events_that_were_deleted_before_they_were_read_fail_the_job(events_that_are_gone, on):
    secret = events_that_are_gone.connection_string
    _put(events_that_are_gone, "numbers", [(b"10", None)])

    def read(pipeline, on_lost):
        return pipeline | ReadFromEventHubs(
            "numbers", connection_string=secret, start={0: 3}, stop="latest", on_lost=on_lost
        )

    gone = pytest.raises((SparkDrainError, RuntimeError), match="offset 3 is to be read next")
    with gone, on("local[1]") as pipeline:
        read(pipeline, "fail")
    with on("local[1]") as pipeline:
        assert_that(read(pipeline, "skip"), equal_to([(None, b"10")]))


def _is_read(folder, process, count):
    assert process.poll() is None, "the job has ended"
    return len({number for (number,) in noted(folder / "noted", "read")}) == count


def _start(surface, address, folder, *flags):
    return subprocess.Popen(
        [
            sys.executable,
            str(PROGRAM),
            str(folder / "noted"),
            surface,
            address,
            "numbers",
            "totals",
            "--runner=SparkDrainRunner",
            "--spark_master_url=local[2]",
            "--streaming",
            "--slots=2",
            "--progress=off",
            "--job_name=hub-totals",
            f"--checkpoint_dir={folder / 'checkpoints'}",
            f"--metadata_store=file:{folder / 'store'}",
            "--checkpoint_ms=1000",
            *flags,
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        text=True,
    )


def _drain(folder):
    command = [sys.executable, "-m", "sparkdrain.cli.main", "drain", "hub-totals"]
    subprocess.run([*command, f"--metadata_store=file:{folder / 'store'}"], check=True)


def _run_killed_and_drained(surface, address, folder, put):
    """Puts a hundred numbers, kills the job, puts more, resumes it and drains it."""
    (folder / "noted").mkdir()
    put(range(100))
    first = _start(surface, address, folder)
    try:
        checkpoints = folder / "checkpoints"
        wait_until(lambda: _is_read(folder, first, 100), SECONDS, 0.1)
        before = len(list(checkpoints.rglob("*.manifest")))
        wait_until(lambda: len(list(checkpoints.rglob("*.manifest"))) > before, SECONDS, 0.1)
    finally:
        first.kill()
        first.wait()
    put(range(100, 250))
    second = _start(surface, address, folder, "--resume=required")
    try:
        wait_until(lambda: _is_read(folder, second, 250), SECONDS, 0.1)
        _drain(folder)
        said, _ = second.communicate(timeout=SECONDS)
    finally:
        second.kill()
        second.wait()
    assert "DRAINED" in said


def _expected():
    sums = {}
    for number in range(250):
        count, total = sums.get(number % KEYS, (0, 0))
        sums[number % KEYS] = (count + 1, total + number)
    return {b"key-%d" % key: b"%d %d" % told for key, told in sums.items()}


def _numbered(numbers):
    return [(b"%d" % number, f"key-{number % KEYS}") for number in numbers]


@pytest.mark.slow
def test_a_stream_of_events_is_resumed_and_drained_with_exact_totals(hubs, tmp_path):
    _run_killed_and_drained(
        "amqp",
        hubs.connection_string,
        tmp_path,
        lambda numbers: _put(hubs, "numbers", _numbered(numbers)),
    )
    with beam.Pipeline(runner="DirectRunner") as pipeline:
        secret = hubs.connection_string
        reading = ReadFromEventHubs("totals", connection_string=secret, stop="latest")
        assert_that(pipeline | reading, equal_to(list(_expected().items())))


@pytest.mark.slow
def test_the_same_by_kafkas_protocol_with_a_connection_string_as_the_password(tmp_path):
    # What starts the broker does not quote its password.
    secret = SECRET.replace("=", "-").replace(";", "-")
    with KafkaBroker(users={"$ConnectionString": secret}) as broker:
        topics = Topics(broker.address)
        topics.make_called("numbers", 3)
        topics.make_called("totals", 2)

        def put(numbers):
            events = _numbered(numbers)
            topics.write("numbers", [(None, key.encode(), value) for value, key in events])

        _run_killed_and_drained("kafka", f"{broker.users_address}|{secret}", tmp_path, put)
        with beam.Pipeline(runner="DirectRunner") as pipeline:
            reading = ReadFromKafka(broker.address, "totals", stop="latest")
            assert_that(pipeline | reading, equal_to(list(_expected().items())))
