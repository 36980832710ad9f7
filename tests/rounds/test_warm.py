"""Workers of a driver that waits have loaded what the job's slots load."""

from __future__ import annotations

import importlib
import sys

import apache_beam as beam
import pytest

from sparkdrain.rounds.driver.warm import WarmUp
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
