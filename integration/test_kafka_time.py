"""A worker whose clock is ten minutes ahead makes no record of a real broker late.

Its clock is set by a ``sitecustomize`` that only the processes below the driver import.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from contextlib import suppress

import apache_beam as beam
import pytest
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.transforms.window import FixedWindows
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from driver_session import stop_session
from kafka_broker import KafkaBroker
from kafka_topics import CLIENTS, PATIENCE_SECONDS, Topics

from sparkdrain.errors import Cancelled
from sparkdrain.io.kafka import ReadFromKafka, Watermarks, WriteToKafka
from sparkdrain.io.kafka.choose import open_client
from sparkdrain.io.kafka.settings import CONSUMER, settings

pytestmark = [pytest.mark.slow, pytest.mark.spark]

# As in a main program: executors cannot import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

AHEAD = 600
WIDTH = 2  # seconds
IDLE = 3.0
SITE = f"""
import time
_right = time.time
time.time = lambda: _right() + {AHEAD}
"""
NAME, WORD = "reader", "reader-secret"
SIGNED_IN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": NAME,
    "sasl.password": WORD,
}


@pytest.fixture(scope="module")
def broker():
    """Users with a name may do what no rule is about; one rule is about the cluster."""
    authorizer = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "true",
    }
    with KafkaBroker(users={NAME: WORD}, settings=authorizer) as running:
        _let_describe("operator", running.address)
        yield running
    stop_session()


def _let_describe(user, address):
    right = AclBinding(
        ResourceType.BROKER,
        "kafka-cluster",
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.ALLOW,
    )
    admin = AdminClient({"bootstrap.servers": address})
    (made,) = admin.create_acls([right]).values()
    made.result(PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def topics(broker):
    return Topics(broker.address)


@pytest.fixture(params=CLIENTS)
def library(request):
    return request.param


@pytest.fixture(params=["told", "not told"])
def reached(request, broker):
    """Where the broker is reached by a user that may ask for its time, or by one that may not."""
    return (broker.address, {}) if request.param == "told" else (broker.users_address, SIGNED_IN)


@pytest.fixture(scope="module")
def _workers_are_ahead(tmp_path_factory):
    site = tmp_path_factory.mktemp("site")
    (site / "sitecustomize.py").write_text(SITE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(site), prepend=":")
        yield


def test_a_broker_tells_its_time_to_users_that_may_ask_for_it(topics, reached, library):
    address, config = reached
    topic = topics.make(2)
    newest = int(time.time() * 1000) - 7000
    clock = open_client(settings(address, config, library, CONSUMER)).clock()
    try:
        empty, heard = clock.time([topic]), time.time()
        topics.write(topic, [(1, None, b"a", (), newest)])
        written = clock.time([topic])
    finally:
        clock.close()
    if config:
        assert empty.seconds is None
        assert written.seconds == newest / 1000
        assert "DESCRIBE on the cluster" in written.reason
    else:
        assert heard - 1 < empty.seconds < heard + 0.1, "both are clocks of this machine"
        assert not empty.reason


class WithClock(beam.DoFn):
    """Says how far the clock of its process is ahead of the time of the record."""

    def process(self, element, at=beam.DoFn.TimestampParam):
        ahead = time.time() - float(at)
        yield "ahead" if ahead > AHEAD - 60 else f"ahead by {ahead}"


class AsRecord(beam.DoFn):
    def process(self, counted, window=beam.DoFn.WindowParam):
        key, count = counted
        yield None, json.dumps([key, int(window.start), count]).encode()


@pytest.mark.usefixtures("_workers_are_ahead")
def test_no_record_is_late_and_windows_close_though_the_workers_clock_is_ahead(
    on, topics, reached, library
):
    address, config = reached
    source, target = topics.make(2), topics.make()
    pipeline = on("local[2]", "--streaming")
    _ = (
        pipeline
        | ReadFromKafka(
            address,
            source,
            watermarks=Watermarks(1.0, IDLE),
            consumer_config=config,
            client=library,
        )
        | beam.ParDo(WithClock())
        | beam.WindowInto(FixedWindows(WIDTH))
        | beam.combiners.Count.PerElement()
        | beam.ParDo(AsRecord())
        | WriteToKafka(topics.address, target)
    )
    expected = Counter()

    def write(partition):
        now = time.time()
        expected[int(now // WIDTH * WIDTH)] += 1
        topics.write(source, [(partition, None, b"x", (), int(now * 1000))])

    def counted():
        return {tuple(json.loads(value)) for value in topics.read(target)}

    def closed():
        return {("ahead", start, count) for start, count in expected.items()}

    result = pipeline.run()
    try:
        for number in range(24):
            write(0 if number % 8 else 1)  # the other one is idle for some seconds
            time.sleep(0.5)
        end = time.monotonic() + PATIENCE_SECONDS
        while len(counted()) < len(expected):
            assert str(result.state) in ("STARTING", "RUNNING"), result.state
            assert time.monotonic() < end, (sorted(counted()), sorted(closed()))
            time.sleep(1)
        assert counted() == closed()
    finally:
        result.cancel()
        with suppress(Cancelled):
            result.wait_until_finish()
