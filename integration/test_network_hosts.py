"""Hosts that are network namespaces join, leave and are restarted while jobs run.

Where namespaces cannot be made, the hosts are addresses of this machine.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import apache_beam as beam
import pytest
import test_local_state_on_cluster as local_state
from apache_beam.coders import VarIntCoder
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.metrics import Metrics
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.userstate import CombiningValueStateSpec
from apache_beam.transforms.window import TimestampedValue
from driver_session import stop_session
from network_hosts import hosts
from spark_cluster import STATE, SparkCluster

from sparkdrain.rounds.driver.loop import RoundLoop
from sparkdrain.rounds.driver.moves import MOVED, MoveLog
from sparkdrain.rounds.driver.tell import FETCHED, LOCAL
from tests.nexmark import auction_site, queries
from tests.nexmark.auction_site import AT_ONCE, EVERY, events
from tests.support.manifests import manifests
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(1800)]

# As in a main program: executors cannot import them.
for _module in (sys.modules[__name__], queries, auction_site):
    cloudpickle.register_pickle_by_value(_module)

PATIENCE_SECONDS = 400.0
KEYS, SLOTS, HOSTS = 8, 3, 3
AT_MOST = int(os.environ.get("STILL_ROUNDS") or 2)
"""Rounds for which a job stands still when slots move; a busy machine may need more: its uploads
take longer than a round waits for them."""
FLAGS = (
    f"--state_dir=${STATE}",
    "--checkpoint_ms=1000",
    # Longer than a level takes here; slots of a lost host do not wait for it.
    "--spark_conf=spark.locality.wait=10s",
    # Spark would wait 15 s for a dead executor to come back.
    "--spark_conf=spark.shuffle.io.maxRetries=1",
    "--spark_conf=spark.shuffle.io.retryWait=1s",
)


class Move(NamedTuple):
    """Slots have moved.

    Attributes:
        hosts: where each of them is now.
        cause: as the user is told.
        still: rounds in which slots were asked, and all stood still for that; 0 if a new life of
            the job has moved them.
    """

    hosts: list[str]
    cause: str
    still: int


@pytest.fixture
def moves(monkeypatch):
    """What moves in jobs of this process."""
    found: list[Move] = []
    still = [0]
    attempt, tell = RoundLoop._try, MoveLog.moved

    def counted(self, feeds, orders):
        reports = attempt(self, feeds, orders)
        still[0] += orders.still and bool(reports)
        return reports

    def told(self, homes, cause, seconds):
        tell(self, homes, cause, seconds)
        if homes:
            found.append(Move(sorted(one.host for one in homes.values()), cause, still[0]))
            print(f"{found[-1]}, {seconds:.1f} s", flush=True)
        still[0] = 0

    monkeypatch.setattr(RoundLoop, "_try", counted)
    monkeypatch.setattr(MoveLog, "moved", told)
    return found


@pytest.fixture
def where(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    stop_session()
    made = hosts(HOSTS)
    print(f"\nhosts are {type(made).__name__}: {[made.address(n) for n in range(HOSTS)]}")
    yield made
    made.close()


def wait_for(moves: list[Move], count: int) -> Move:
    """The move that makes them so many."""
    wait_until(lambda: len(moves) >= count, PATIENCE_SECONDS, 0.1)
    return moves[count - 1]


def wait_for_checkpoint(folder: Path) -> None:
    """One more is published."""
    there = set(manifests(folder))
    wait_until(lambda: set(manifests(folder)) - there, PATIENCE_SECONDS, 0.1)


def drained(result) -> tuple[dict[str, int], list]:
    """Drain the job; its own counters, and all metrics."""
    assert result.drain() in {"DRAINING", "DRAINED"}
    result.wait_until_finish()
    found = result.metrics().query()
    stop_session()
    told = {c.key.metric.name: c.committed for c in found["counters"]}
    print({name: told.get(name) for name in (MOVED, LOCAL, FETCHED)})
    return told, found


class Moment(beam.DoFn):
    """The events of an auction site that have the time of an impulse."""

    def __init__(self, begin: int) -> None:
        self._begin = begin

    def setup(self) -> None:
        self._events = events(20_000, start=self._begin)

    def process(self, now):
        first = round((now - self._begin) / EVERY) * AT_ONCE
        for event, time_ in self._events[first : first + AT_ONCE]:
            Metrics.counter("site", "events").inc()
            yield TimestampedValue(event, time_)


@pytest.mark.parametrize("number", [3, 5, 8, 11])
def test_nexmark_gives_what_one_machine_does_while_a_host_joins_and_leaves(
    on, where, moves, tmp_path, number
):
    """Queries with state and timers, sliding windows, a join of windows, and sessions."""
    begin = int(time.time())

    def site(pipeline):
        return pipeline | PeriodicImpulse(begin, fire_interval=EVERY) | beam.ParDo(Moment(begin))

    with SparkCluster(workers=2, cores=1, where=where) as cluster:
        flags = [
            *where.flags,
            *FLAGS,
            *queries.FLAGS,
            f"--checkpoint_dir={tmp_path}",
            f"--slots={SLOTS}",
        ]
        pipeline = on(cluster.url, *flags, "--job_name=site")
        queries.ask(pipeline, site, number)
        result = pipeline.run()
        wait_for_checkpoint(tmp_path)
        third = cluster.join()
        joined = wait_for(moves, 1)
        wait_for_checkpoint(tmp_path)
        cluster.lose(third)
        left = wait_for(moves, 2)
        wait_for_checkpoint(tmp_path)
        told, found = drained(result)
    assert joined.hosts == [third], "as few as possible"
    assert 1 <= joined.still <= AT_MOST
    assert len(left.hosts) == 1
    assert left.cause.startswith("Lost: 1 executor")
    assert len(moves) == 2
    alone = on("local[2]", *queries.FLAGS)
    queries.ask(alone, queries.created(events(told["events"], start=begin)), number)
    result = alone.run()
    result.wait_until_finish()
    assert answers(found, number) == answers(result.metrics().query(), number)


def answers(found, number: int) -> dict:
    """Those of a query, which are some."""
    counters = [(c.key.metric.namespace, c.key.metric.name, c.committed) for c in found["counters"]]
    answered = queries.answers(counters, number)
    assert answered
    print(f"query {number}: {len(answered)} different answers")
    return answered


class Count(beam.DoFn):
    """Counts the elements of each key."""

    COUNT = CombiningValueStateSpec("count", VarIntCoder(), sum)

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        count.add(1)
        Metrics.distribution("live", "counts").update(count.read())


def test_a_rolling_restart_moves_no_more_slots_than_it_must(on, where, moves, tmp_path):
    begin, every = time.time(), 0.05
    with SparkCluster(workers=HOSTS, cores=1, where=where) as cluster:
        flags = [*where.flags, *FLAGS, f"--checkpoint_dir={tmp_path}", f"--slots={SLOTS}"]
        pipeline = on(cluster.url, *flags, "--job_name=rolling")
        _ = (
            pipeline
            | PeriodicImpulse(begin, fire_interval=every)
            | beam.Map(lambda now: (round((now - begin) / every) % KEYS, now)).with_output_types(
                tuple[int, float]
            )
            | beam.ParDo(Count())
        )
        result = pipeline.run()
        wait_for_checkpoint(tmp_path)
        for host in cluster.hosts:
            count = len(moves)
            cluster.lose(host)
            left = wait_for(moves, count + 1)
            wait_for_checkpoint(tmp_path)
            assert cluster.join() == host
            back = wait_for(moves, count + 2)
            wait_for_checkpoint(tmp_path)
            assert left.cause.startswith("Lost: 1 executor")
            assert host not in left.hosts
            assert len(left.hosts) == SLOTS // HOSTS, "those that the host had"
            assert back.hosts == [host] * (SLOTS // HOSTS)
            assert 1 <= back.still <= AT_MOST
        told, found = drained(result)
    assert len(moves) == 2 * HOSTS
    assert told[MOVED] == 2 * SLOTS
    (counts,) = [c for c in found["distributions"] if c.key.metric.name == "counts"]
    each = Counter(number % KEYS for number in range(counts.committed.count))
    assert counts.committed.sum == sum(n * (n + 1) // 2 for n in each.values()), "each counts once"


def test_no_state_is_downloaded_after_a_job_and_all_of_its_hosts_were_restarted(
    on, where, tmp_path
):
    begin = time.time()
    with SparkCluster(workers=2, cores=1, where=where) as cluster:
        result = local_state.start(on, cluster.url, tmp_path, begin, *where.flags)
        wait_for_checkpoint(tmp_path)
        result.cancel()
        stop_session()
        for host in cluster.hosts:
            cluster.lose(host)
            assert cluster.join() == host
        result = local_state.start(on, cluster.url, tmp_path, begin, *where.flags)
        result.wait_until_finish()
        stop_session()
    local_state.check(result)
