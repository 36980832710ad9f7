"""Nexmark on two hosts: what one machine makes of it, in batch and in streaming mode.

The hosts are two addresses of this machine, which Spark takes for two hosts.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.metrics import MetricsFilter

from sparkdrain.rounds.driver.placement import AT_HOME, AWAY
from tests.nexmark import queries
from tests.nexmark.auction_site import events

pytestmark = [pytest.mark.slow, pytest.mark.spark]

# As in a main program: executors cannot import it.
cloudpickle.register_pickle_by_value(queries)

EVENTS = 600


def run(pipeline, mode: str) -> list[tuple[str, str, int]]:
    """Run all queries at once: a job for each would take its time from the start of jobs."""
    made = events(EVENTS)
    chance = random.Random(EVENTS)
    source = queries.created(made) if mode == "batch" else queries.streamed(made, chance)
    queries.ask(pipeline, source, *queries.QUERIES)
    result = pipeline.run()
    result.wait_until_finish()
    found: list[Any] = result.metrics().query(MetricsFilter())["counters"]
    return [(c.key.metric.namespace, c.key.metric.name, c.committed) for c in found]


def answered(counters) -> dict[int, Any]:
    return {number: queries.answers(counters, number) for number in queries.QUERIES}


def named(counters, namespace: str) -> dict[str, int]:
    return {name: count for space, name, count in counters if space == namespace}


@pytest.fixture(scope="module")
def expected(on) -> dict[int, Any]:
    """What batch mode makes of it on this machine."""
    answers = answered(run(on("local[2]", *queries.FLAGS), "batch"))
    assert all(answers.values())
    return answers


def test_streaming_gives_on_this_machine_what_batch_does(on, expected):
    assert answered(run(on("local[2]", *queries.FLAGS), "streaming")) == expected


def test_two_hosts_give_in_streaming_mode_what_one_machine_does_and_slots_stay_at_home(
    on, cluster, expected
):
    # One for each core: none has to wait for its home, however slow the machine is.
    counters = run(on(cluster.url, *queries.FLAGS, "--slots=2"), "streaming")
    assert answered(counters) == expected
    assert set(named(counters, queries.PLACES)) == set(cluster.hosts)
    told = named(counters, "sparkdrain")
    assert told[AT_HOME] > 20
    assert told[AWAY] <= 0.05 * told[AT_HOME], told


def test_two_hosts_give_in_batch_mode_what_one_machine_does(on, cluster, expected):
    assert answered(run(on(cluster.url, *queries.FLAGS, "--slots=4"), "batch")) == expected
