"""Pipelines on Spark between topics of a real broker, which is killed at times."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from contextlib import suppress

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Timestamp
from driver_session import stop_session
from kafka_broker import KafkaBroker
from kafka_topics import CLIENTS, PATIENCE_SECONDS, Topics

from sparkdrain.errors import Cancelled
from sparkdrain.io.kafka import ProducerRecord, ReadFromKafka, Watermarks, WriteToKafka
from sparkdrain.io.kafka.client import Partition

pytestmark = [pytest.mark.slow, pytest.mark.spark]

# As in a main program: executors cannot import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

MASTER = "local[2]"
WIDTH = 2  # seconds


@pytest.fixture(scope="module")
def broker():
    with KafkaBroker() as running:
        yield running
    stop_session()


@pytest.fixture(scope="module")
def topics(broker):
    return Topics(broker.address)


@pytest.fixture(params=CLIENTS)
def library(request):
    return request.param


def lines(directory):
    return sorted(line for file in directory.glob("*") for line in file.read_text().splitlines())


def test_a_bounded_read_between_offsets_and_times(on, topics, tmp_path, library):
    topic = topics.make(3)
    records = [(n % 3, b"%d" % n, b"%d" % n, (), 1000 + 1000 * n) for n in range(300)]
    topics.write(topic, records, compression_type="lz4")
    with on(MASTER) as p:
        for name, start, stop in (
            ("all", "earliest", "latest"),
            ("offsets", {(topic, 1): 10}, {(topic, 1): 20}),
            ("times", Timestamp(101), Timestamp(111)),
        ):
            _ = (
                p
                | f"Read {name}"
                >> ReadFromKafka(topics.address, topic, start=start, stop=stop, client=library)
                | f"Text {name}" >> beam.Map(lambda pair: f"{int(pair[0])} {int(pair[1])}")
                | f"Write {name}" >> beam.io.WriteToText(str(tmp_path / name / "out"))
            )

    def numbers(name):
        return sorted(int(line.split()[0]) for line in lines(tmp_path / name))

    assert numbers("all") == list(range(300))
    assert numbers("offsets") == [n for n in range(31, 61) if n % 3 == 1]
    assert numbers("times") == list(range(100, 110))


def test_records_keep_everything_from_topic_to_topic(on, topics, library):
    source, target = topics.make(2), topics.make(2)
    headers = (("h", b"x"), ("h", b""))
    records = [(0, b"k", b"v", headers, 1500), (1, None, b"w", (), 2500), (0, b"k", None, (), 3500)]
    topics.write(source, records)
    with on(MASTER) as p:
        read = ReadFromKafka(
            topics.address, source, stop="latest", with_metadata=True, client=library
        )
        _ = (
            p
            | read
            | beam.Map(
                lambda r: ProducerRecord(r.key, r.value, None, r.partition, r.timestamp, r.headers)
            )
            | WriteToKafka(topics.address, target, client=library)
        )
    catalog = topics.client().catalog()
    assert catalog.latest([Partition(target, 0), Partition(target, 1)]) == {
        Partition(target, 0): 2,
        Partition(target, 1): 1,
    }
    catalog.close()
    records = topics.client().records(headers=True)
    records.follow(Partition(target, 0), 0)
    (batch,) = [b for b in _until(records, 2) if b.offsets]
    assert list(batch.times) == [1500, 3500]
    assert list(batch.headers) == [headers, ()]
    assert list(batch.values) == [b"v", None]
    records.close()


def _until(records, after):
    end = time.monotonic() + PATIENCE_SECONDS
    found = []
    while not found or found[-1].after < after:
        assert time.monotonic() < end
        found += records.poll(0.1, 1000)
    return found


class AsRecord(beam.DoFn):
    def process(self, counted, window=beam.DoFn.WindowParam):
        key, count = counted
        line = json.dumps([key, float(window.start), count])
        yield key.encode(), line.encode()


def counting(p, topics, source, target, library, **settings):
    read = ReadFromKafka(
        topics.address,
        pattern=f"{source}.*",
        value_coder=coders.StrUtf8Coder(),
        watermarks=Watermarks(1.0, None),
        client=library,
        **settings,
    )
    good, bad = p | "Read" >> read.with_exception_handling()
    _ = (
        good
        | beam.Map(lambda pair: pair[1])
        | beam.WindowInto(FixedWindows(WIDTH))
        | beam.combiners.Count.PerElement()
        | beam.ParDo(AsRecord())
        | "Counts" >> WriteToKafka(topics.address, target, client=library)
    )
    _ = (
        bad
        | beam.Map(lambda record: (None, f"{record.topic} {record.offset}".encode()))
        | "Bad" >> WriteToKafka(topics.address, target + "-bad", client=library)
    )


class Running:
    """A job in the background; cancelled at the end, if it has not failed before."""

    def __init__(self, pipeline):
        self.result = pipeline.run()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.result.cancel()
        with suppress(Cancelled):
            self.result.wait_until_finish()

    def wait_for(self, condition, seconds=PATIENCE_SECONDS * 2):
        end = time.monotonic() + seconds
        while not condition():
            assert str(self.result.state) in ("STARTING", "RUNNING"), self.result.state
            assert time.monotonic() < end, "it did not come"
            time.sleep(1)


def test_counts_go_on_while_the_broker_is_killed_and_topics_and_partitions_come(
    on, broker, topics, library
):
    """Kafka to windowed counts to Kafka, in which every record is counted once."""
    source, target = topics.make(2, prefix="source"), topics.make()
    topics.make_called(target + "-bad")
    expected = Counter()
    clock = iter(range(1, 10**6))

    def write(topic, partitions, count):
        records = []
        for number in range(count):
            for partition in range(partitions):
                millis = 100 * next(clock)
                key = f"{number % 3}"
                expected[key, millis // (1000 * WIDTH) * WIDTH] += 1
                records.append((partition, None, key.encode(), (), millis))
        topics.write(topic, records, library=library)
        return records[-1][4]

    def counted():
        found = [json.loads(value) for value in topics.read(target)]
        return {(key, int(start)): count for key, start, count in found}

    def closed(millis):
        """The windows that end before."""
        return {at for at in expected if (at[1] + WIDTH) * 1000 <= millis - 5000}

    with Running(_built(on, topics, source, target, library)) as job:
        newest = write(source, 2, 100)
        job.wait_for(lambda: closed(newest) <= counted().keys())
        broker.kill()
        broker.start()
        newest = write(source, 2, 100)
        job.wait_for(lambda: closed(newest) <= counted().keys())
        topics.grow(source, 3)
        second = topics.make(1, prefix=source)
        # Their times have nothing to do with the clock: until they are known, they may be late.
        for topic, partition in ((source, 2), (second, 0)):
            topics.write(topic, [(partition, None, b"\xff", (), 100 * next(clock))])
        bad = {f"{source} 0".encode(), f"{second} 0".encode()}
        job.wait_for(lambda: set(topics.read(target + "-bad")) == bad)
        for _ in range(3):
            write(second, 1, 30)
            newest = write(source, 3, 50)
        write(second, 1, 1)
        job.wait_for(lambda: closed(newest) <= counted().keys())
        complete = closed(newest)
        assert {at: counted()[at] for at in complete} == {at: expected[at] for at in complete}
        assert len(complete) > 30


def _built(on, topics, source, target, library):
    pipeline = on(MASTER, "--streaming")
    counting(pipeline, topics, source, target, library, discover_every=0.5)
    return pipeline


def test_a_job_goes_on_from_the_offsets_that_the_last_one_committed(on, topics, library):
    source, target = topics.make(2), topics.make()
    config = {"group.id": f"group-{source}"}

    def build(**settings):
        pipeline = on(MASTER, "--streaming")
        _ = (
            pipeline
            | ReadFromKafka(
                topics.address,
                source,
                start="committed",
                consumer_config=config,
                client=library,
                **settings,
            )
            | WriteToKafka(topics.address, target, client=library)
        )
        return pipeline

    def seen():
        return Counter(topics.read(target))

    topics.write(source, [(n % 2, None, b"%d" % n) for n in range(50)])
    catalog = topics.client(**config).catalog()
    both = [Partition(source, 0), Partition(source, 1)]
    with Running(build(commit_offsets=True)) as job:
        job.wait_for(lambda: {catalog.committed(one) for one in both} == {25})
        assert seen() == Counter(b"%d" % n for n in range(50))
    topics.write(source, [(n % 2, None, b"%d" % n) for n in range(50, 60)])
    with Running(build(commit_offsets=True)) as job:
        job.wait_for(lambda: {catalog.committed(one) for one in both} == {30})
    assert seen() == Counter(b"%d" % n for n in range(60))
    catalog.close()
    assert not [t for t in threading.enumerate() if t.name == "kafka-commits"]
