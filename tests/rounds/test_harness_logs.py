"""What SDK harnesses of a stream log reaches the driver, by the task that makes a slot's host."""

from __future__ import annotations

import logging
import os
import sys

import apache_beam as beam
import pytest
from apache_beam.transforms import environments

from sparkdrain.lines.server import TcpBind
from sparkdrain.rounds.driver.schedule import Schedule
from sparkdrain.rounds.slots.task import RoundTask
from sparkdrain.shuffle.outbox import ShuffleLayout
from sparkdrain.stages.telling import log_channel
from sparkdrain.stages.telling.log_channel import log_server
from sparkdrain.stages.workers.preparation import Preparation
from tests.support.in_memory_rounds import DEFAULTS, plan_of
from tests.support.waiting import wait_until

MANY = 3000


def shout(_: bytes) -> None:
    logger = logging.getLogger("mine")
    logger.info("all is well")
    for number in range(MANY):
        logger.info("number %s", number)
    logger.error("it burns")


@pytest.fixture
def told():
    """What the driver hears, and where."""
    heard: list[tuple[int, str]] = []
    server = log_server(TcpBind("127.0.0.1", "127.0.0.1"), lambda *record: heard.append(record))
    yield heard, server.endpoint
    server.close()


def test_what_user_code_of_a_stream_logs_is_told_with_its_step_and_not_without_end(
    told, tmp_path, monkeypatch
):
    monkeypatch.setattr(log_channel, "_OF_A_JOB", 20)
    monkeypatch.setattr(log_channel, "_SECONDS", 3600.0)
    heard, endpoint = told
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Impulse() | "Shout" >> beam.Map(shout)
    environment = environments.ProcessEnvironment(
        f"{sys.executable} -m sparkdrain.cli.main worker",
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capabilities=environments.python_sdk_capabilities(),
    )
    plan = plan_of(pipeline, environment)
    task = RoundTask(
        job="job",
        plan=None,
        level=0,
        layout=ShuffleLayout(1, len(plan.levels), 0),
        options=DEFAULTS,
        preparation=Preparation.of({}),
        leash=None,
        headers=(),
        fresh=frozenset(),
        has_input=False,
        place=None,
        reports=None,
        logs=endpoint,
    )
    service = task._service(plan.encode(), tmp_path)
    try:
        header = Schedule(plan, 1).header(0, 0, 0, {}, 1.0, 10, {})
        service.run(header.encode(), iter(()), lambda _: None)
        wait_until(lambda: (logging.ERROR, "Shout: it burns") in heard)
    finally:
        service.close()
    assert heard[0] == (logging.INFO, "Shout: all is well")
    quiet = [text for level, text in heard if level < logging.WARNING]
    assert quiet[1:] == [f"Shout: number {n}" for n in range(19)]
    assert len([text for _, text in heard if "more than 20 log records" in text]) == 1
