"""`examples/redeploy.py`: a version that cannot read the old state, with a drain and without."""

from __future__ import annotations

import importlib.util
import json
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import apache_beam as beam
import pytest
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.metrics import MetricsFilter
from driver_session import stop_session
from kafka_broker import KafkaBroker
from kafka_topics import Topics

from sparkdrain.errors import Cancelled, CheckpointRefused
from sparkdrain.io.kafka.client import Partition
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = pytest.mark.spark

SECONDS = 120
PARTITIONS = 2
VISITS = 200
HOUR = 3600  # seconds


@pytest.fixture(scope="module")
def topics():
    with KafkaBroker() as broker:
        yield Topics(broker.address)
    stop_session()


@pytest.fixture(scope="module")
def redeploy():
    path = Path(__file__).parents[1] / "examples" / "redeploy.py"
    spec = importlib.util.spec_from_file_location("redeploy", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["redeploy"] = module
    spec.loader.exec_module(module)
    # As in a main program: executors cannot import it.
    cloudpickle.register_pickle_by_value(module)
    return module


def visit(number: int) -> dict:
    return {
        "page": f"page {number % 5}",
        "browser": f"browser {number % 3}",
        "seconds": number / 2,
    }


def next_hour() -> int:
    """The beginning of an hour that is not over when a test is: milliseconds since the epoch."""
    return (time.time_ns() // 10**9 // HOUR + 2) * HOUR * 1000


class Story:
    """A topic of visits, one of sums, and versions of the job between them."""

    def __init__(self, topics, redeploy, folder) -> None:
        self._topics = topics
        self._redeploy = redeploy
        self._folder = folder
        # By default a broker refuses records of times that are more than an hour away.
        self._source = topics.make(PARTITIONS, **{"message.timestamp.after.max.ms": str(2**62)})
        self._target = topics.make(1)
        self._hour = next_hour()
        self.written = 0

    def visit(self, visits: int = VISITS) -> None:
        """Write visits; ``n`` is at offset ``n // PARTITIONS`` of partition ``n % PARTITIONS``."""
        numbers = range(self.written, self.written + visits)
        records = [
            (n % PARTITIONS, b"", json.dumps(visit(n)).encode(), (), self._hour + n)
            for n in numbers
        ]
        # Else a visit that is sent again would be written twice.
        self._topics.write(self._source, records, enable_idempotence=True)
        self.written = numbers.stop

    def start(self, version: int, *flags: str, folder: str = "checkpoints"):
        known, options = self._redeploy.parse(
            [
                f"--version={version}",
                f"--bootstrap_servers={self._topics.address}",
                f"--input={self._source}",
                f"--output={self._target}",
                f"--group={self._source}",
                "--runner=sparkdrain.SparkDrainRunner",
                "--spark_master_url=local[2]",
                "--progress=off",
                "--job_name=visits",
                f"--checkpoint_dir={self._folder / folder}",
                "--checkpoint_ms=500",
                *flags,
            ]
        )
        pipeline = beam.Pipeline(options=options)
        self._redeploy.build(pipeline, known)
        return pipeline.run()

    def committed(self) -> set[int]:
        """The visits that the group has read, as its committed offsets say."""
        catalog = self._topics.client(group_id=self._source).catalog()
        partitions = [Partition(self._source, number) for number in range(PARTITIONS)]
        offsets = {one: catalog.committed(one) for one in partitions}
        catalog.close()
        return {
            offset * PARTITIONS + partition.number
            for partition, end in offsets.items()
            for offset in range(end or 0)
        }

    def sums(self) -> list[dict]:
        return [json.loads(value) for value in self._topics.read(self._target)]


wait_for = partial(wait_until, seconds=SECONDS, pause=0.1)


def has_read(result, count: int) -> None:
    def read():
        found = result.metrics().query(MetricsFilter().with_name("records_read"))["counters"]
        return sum(counter.committed for counter in found) >= count

    wait_for(read)


def drained(result) -> None:
    result.drain()
    assert result.wait_until_finish() == "DRAINED"


class Visitors:
    """Visit all the while, in a thread; use it as a context manager."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._visit, daemon=True)

    def __enter__(self) -> Visitors:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()

    def _visit(self) -> None:
        while not self._end.wait(0.05):
            self._story.visit(10)


def assert_summed(lines: list[dict], visits: Iterable[int], *what: str) -> None:
    """Each of ``visits`` was counted once, in the sums of its page, or of its page and browser."""
    expected, found = Counter(), Counter()
    for n in visits:
        expected[tuple(visit(n)[name] for name in what)] += 1
    for line in lines:
        found[tuple(line[name] for name in what)] += line["visits"]
    assert found == expected


def test_drained_and_started_anew_each_visit_is_counted_once(topics, redeploy, tmp_path):
    """Visitors never stop: at the cut there are visits in open windows, on the way, and unread."""
    story = Story(topics, redeploy, tmp_path)
    with Visitors(story):
        first = story.start(1)
        has_read(first, VISITS)
        assert story.sums() == []  # the hour is not over: what was read is in the job
        at_the_cut = story.written
        drained(first)
        before = story.committed()
        assert_summed(story.sums(), before, "page")
        assert {line["version"] for line in story.sums()} == {1}
        assert len(before) >= VISITS
        wait_for(lambda: story.written > at_the_cut + VISITS)

        second = story.start(2)
        has_read(second, VISITS)
    after = set(range(story.written)) - before
    assert len(after) >= VISITS
    has_read(second, len(after))
    drained(second)
    lines = [line for line in story.sums() if line["version"] == 2]
    assert_summed(lines, after, "page", "browser")
    assert sum(line["seconds"] for line in lines) == sum(visit(n)["seconds"] for n in after)
    assert len(lines) + 5 == len(story.sums())
    assert story.committed() == set(range(story.written))


@pytest.mark.slow
def test_without_a_drain_the_new_version_is_refused_and_begun_anew_it_loses_visits(
    topics, redeploy, tmp_path
):
    story = Story(topics, redeploy, tmp_path)
    story.visit()
    first = story.start(1)
    has_read(first, VISITS)
    wait_for(lambda: story.committed() == set(range(VISITS)))
    first.cancel()
    with suppress(RuntimeError, Cancelled):
        first.wait_until_finish()

    with pytest.raises(CheckpointRefused, match="Page and browser"):
        story.start(2, "--resume").wait_until_finish()
    story.visit()
    second = story.start(2, folder="another")
    has_read(second, VISITS)
    drained(second)
    # Those of the first version are nowhere.
    assert sum(line["visits"] for line in story.sums()) == VISITS
