"""`examples/redeploy.py`: a version that cannot read the old state, with a drain and without."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

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

pytestmark = pytest.mark.spark

SECONDS = 120
PARTITIONS = 2
VISITS = 200


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


class Story:
    """A topic of visits, one of sums, and versions of the job between them."""

    def __init__(self, topics, redeploy, folder) -> None:
        self._topics = topics
        self._redeploy = redeploy
        self._folder = folder
        self._source = topics.make(PARTITIONS)
        self._target = topics.make(1)

    def visit(self) -> None:
        visits = [
            {"page": f"page {n % 5}", "browser": f"browser {n % 3}", "seconds": n / 2}
            for n in range(VISITS)
        ]
        now = time.time_ns() // 1_000_000
        records = [
            (n % PARTITIONS, b"", json.dumps(visit).encode(), (), now)
            for n, visit in enumerate(visits)
        ]
        self._topics.write(self._source, records)

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

    def committed(self) -> int:
        """How many visits the group has read, as its committed offsets say."""
        catalog = self._topics.client(group_id=self._source).catalog()
        partitions = [Partition(self._source, number) for number in range(PARTITIONS)]
        offsets = catalog.committed(partitions)
        catalog.close()
        return sum(offset or 0 for offset in offsets.values())

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


def test_drained_and_started_anew_each_visit_is_counted_once(topics, redeploy, tmp_path):
    story = Story(topics, redeploy, tmp_path)
    story.visit()
    first = story.start(1)
    has_read(first, VISITS)
    assert story.sums() == []  # the hour is not over
    drained(first)
    assert sum(line["visits"] for line in story.sums()) == VISITS
    assert {line["version"] for line in story.sums()} == {1}

    story.visit()
    second = story.start(2)
    has_read(second, VISITS)
    drained(second)
    lines = [line for line in story.sums() if line["version"] == 2]
    assert sum(line["visits"] for line in lines) == VISITS
    assert sum(line["seconds"] for line in lines) == sum(n / 2 for n in range(VISITS))
    assert sum(line["visits"] for line in story.sums()) == 2 * VISITS


def test_without_a_drain_the_new_version_is_refused_and_begun_anew_it_loses_visits(
    topics, redeploy, tmp_path
):
    story = Story(topics, redeploy, tmp_path)
    story.visit()
    first = story.start(1)
    has_read(first, VISITS)
    wait_for(lambda: story.committed() == VISITS)
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
