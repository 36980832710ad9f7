"""What SDK harnesses count for their whole process counts once, whichever slots share it."""

from __future__ import annotations

import itertools
import logging
import os
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import apache_beam as beam
import pytest
from apache_beam.metrics import monitoring_infos
from apache_beam.metrics.cells import DistributionData
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from apache_beam.transforms import environments

from sparkdrain.fnapi.harness import Outside
from sparkdrain.fnapi.harness_job import HarnessJob
from sparkdrain.fnapi.harnesses import Harnesses
from sparkdrain.fnapi.launch import PooledHarness
from sparkdrain.fnapi.stage_metrics import StageMetrics, _news
from sparkdrain.graph.beam import common_urns
from tests.fnapi.test_relayed import MULTI_CORE, Slot
from tests.harness.test_process_metrics import Costs, costs, of_process
from tests.support.in_memory import run_in_memory
from tests.support.scripted_harness import EMBEDDING, Scripted, ends_of, run_scripted

OF_PROCESS = common_urns.protocols.HARNESS_MONITORING_INFOS.urn


def counter(value):
    return monitoring_infos.int64_user_counter("ns", "requests", value)


def one_stage(pipeline):
    return pipeline | beam.Impulse() | beam.Map(lambda element: element)


def ends(descriptor, _):
    return ends_of(descriptor)


# --- scripts --------------------------------------------------------------------------------------


def test_a_harness_that_has_told_before_tells_what_has_come_since(tmp_path):
    for told, expected in ((5, 5), (5, None), (7, 2)):
        scripted = run_scripted(
            one_stage,
            ends,
            capabilities=(EMBEDDING, OF_PROCESS),
            told=tmp_path / "told",
            of_process={"1": counter(told)},
        )
        assert scripted.asked_of_process == 1
        assert of_process(scripted.reports) == ({} if expected is None else {"requests": expected})
    assert [file.name for file in tmp_path.iterdir()] == ["told"]


@pytest.mark.parametrize("capabilities", [(EMBEDDING,), (EMBEDDING, OF_PROCESS)])
def test_a_harness_is_not_asked_if_it_cannot_tell_or_nobody_knows_who_else_asks_it(
    tmp_path, capabilities
):
    scripted = run_scripted(
        one_stage,
        ends,
        capabilities=capabilities,
        told=tmp_path / "told" if OF_PROCESS not in capabilities else None,
        of_process={"1": counter(1)},
    )
    assert scripted.asked_of_process == 0
    assert of_process(scripted.reports) == {}


def test_a_process_is_asked_once_for_all_bundles_since_it_was_asked(tmp_path):
    scripted = Scripted(ends, told=tmp_path / "told", of_process={"1": counter(5)})
    try:
        metrics = StageMetrics(scripted.worker, frozenset({OF_PROCESS}))
        asked = []
        for bundles in (0, 1, 0, 2):
            for _ in range(bundles):
                metrics.count(beam_fn_api_pb2.ProcessBundleResponse())
            found = metrics.infos()
            asked.append(scripted.asked_of_process)
    finally:
        scripted.worker.close()
    assert asked == [0, 1, 1, 2]
    assert found == [counter(5)]


def test_a_job_does_not_fail_of_metrics_that_cannot_be_kept(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        scripted = run_scripted(
            one_stage,
            ends,
            capabilities=(EMBEDDING, OF_PROCESS),
            told=tmp_path / "gone" / "told",
            of_process={"1": counter(1)},
        )
    assert of_process(scripted.reports) == {}
    assert "is asked for later" in caplog.text


def test_of_two_slots_that_ask_at_the_same_time_one_waits_for_the_other(tmp_path):
    first_asks, asked = threading.Event(), []

    def ask():
        asked.append(time.monotonic())
        first_asks.set()
        time.sleep(0.3)
        return [counter(5)]

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(_news, tmp_path / "told", ask)
        first_asks.wait()
        second = pool.submit(_news, tmp_path / "told", ask)
    assert [first.result(), second.result()] == [[counter(5)], []]
    assert asked[1] - asked[0] >= 0.3


def test_only_a_pool_in_the_program_itself_is_known_to_be_one_process():
    services = SimpleNamespace(socket="unix:/here", at=lambda host: f"{host}:1")

    def told(url):
        payload = beam_runner_api_pb2.ExternalPayload(endpoint={"url": url})
        return PooledHarness(payload, services).told

    assert str(told("unix:/own/pool")) == "/own/pool.told"
    with socket.create_server(("localhost", 0)) as pool:
        assert told(f"localhost:{pool.getsockname()[1]}") is None


# --- Beam's harness -------------------------------------------------------------------------------


def by_command(*more):
    return environments.ProcessEnvironment(
        f"{sys.executable} -m sparkdrain.cli.main worker",
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capabilities=[*environments.python_sdk_capabilities(), *more],
    )


def twice(pipeline):
    return costs(pipeline) | "Shuffle" >> beam.Reshuffle() | "Again" >> beam.ParDo(Costs())


@pytest.mark.parametrize("kind", ["command", "pool"])
def test_each_process_tells_once_all_of_its_stages(kind, run):
    if kind == "pool":
        found = of_process(run(twice)[0])
    else:
        harnesses = Harnesses()
        pipeline = beam.Pipeline()
        twice(pipeline)
        outside = Outside(HarnessJob("job", {}), harnesses)
        try:
            reports = run_in_memory(pipeline, 2, environment=by_command(), outside=outside)
        finally:
            harnesses.close()
        found = of_process(reports)
    assert found["cost"].data == DistributionData(20, 8, 1, 4)
    assert found["level"].value == 7


def test_of_slots_that_share_a_process_each_tells_what_no_other_has_told(tmp_path):
    slots = [Slot(tmp_path / "executor") for _ in range(2)]
    for slot in slots:
        slot.environment = by_command(MULTI_CORE)
    try:
        with ThreadPoolExecutor(2) as pool:
            told = [*itertools.chain(*pool.map(lambda slot: slot.run(twice), slots))]
        assert slots[0].process == slots[1].process
    finally:
        for slot in slots:
            slot.harnesses.close()
    assert of_process(told)["cost"].data == DistributionData(40, 16, 1, 4)
