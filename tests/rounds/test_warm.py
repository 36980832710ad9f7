"""Workers of a driver that waits have loaded what the job's slots load."""

from __future__ import annotations

import importlib
import sys
import threading
import time

import apache_beam as beam
import pytest

from sparkdrain.rounds.driver import warm
from sparkdrain.rounds.driver.warm import WarmUp, warming
from sparkdrain.stages.workers.preparation import Preparation
from tests.support.in_memory_rounds import plan_of

MODULE = "module_of_a_waiting_job"
SOURCE = """
import apache_beam as beam

class Told(beam.DoFn):
    def setup(self):
        raise AssertionError("a driver that waits sets nothing up")

    def process(self, element):
        yield element
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / f"{MODULE}.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module(MODULE)
    sys.modules.pop(MODULE, None)


def plan_with(module):
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Create([b"a"]) | beam.ParDo(module.Told())
    return plan_of(pipeline)


def test_workers_load_the_modules_of_dofns_and_set_nothing_up(module):
    plan = plan_with(module)
    del sys.modules[MODULE]
    warm_up = WarmUp(plan.encode(), Preparation.of({}))
    assert list(warm_up(3, iter([b"warm"]))) == [(3, b"warm")]
    assert MODULE in sys.modules


def test_what_cannot_be_loaded_is_left_to_the_first_round(module, monkeypatch):
    plan = plan_with(module)
    del sys.modules[MODULE]
    monkeypatch.setattr(sys, "path", [])
    importlib.invalidate_caches()
    assert list(WarmUp(plan.encode(), Preparation.of({}))(0, iter(()))) == [(0, b"warm")]


def test_executors_that_come_are_asked_to_load_and_their_workers_are_awaited(module, monkeypatch):
    started, loaded = threading.Event(), []

    def ask(context, group, executors, question) -> None:
        started.set()
        time.sleep(0.05)
        question()
        loaded.append((group, list(executors)))

    stopped: list[str] = []
    monkeypatch.setattr(warm, "ask_in_group", ask)
    monkeypatch.setattr(warm, "stop_group", lambda context, group: stopped.append(group))
    plan = plan_with(module)
    del sys.modules[MODULE]
    with warming(None, plan, Preparation.of({}), "warm") as came:
        came(["a", "b"])
        assert started.wait(30)
        assert not stopped
    assert loaded == [("warm", ["a", "b"])]
    assert MODULE in sys.modules
    assert stopped == ["warm"]


def test_a_worker_that_hangs_while_it_loads_is_left_to_the_first_round(module, monkeypatch):
    hangs = threading.Event()
    monkeypatch.setattr(warm, "ask_in_group", lambda *_: hangs.wait(60))
    monkeypatch.setattr(warm, "stop_group", lambda *_: hangs.set())
    monkeypatch.setattr(warm, "_WARM_SECONDS", 0.01)
    with warming(None, plan_with(module), Preparation.of({}), "warm") as came:
        came(["a"])
    assert hangs.is_set()
