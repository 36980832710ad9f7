from __future__ import annotations

from importlib import import_module

import pytest
import test_in_rounds
from apache_beam.runners.portability.fn_api_runner import fn_runner_test
from unsupported import FAILING, HOW, NOT_RUN

_SUITES = (
    "test_fn_api_runner",
    "test_in_rounds",
    "test_portable_runner",
    "test_records_over_loopback",
    "test_validates_runner",
)


@pytest.mark.parametrize("name", FAILING)
def test_what_is_listed_as_failing_is_a_test(name):
    suite, test = name.split(".")
    known = {name: cls for module in _SUITES for name, cls in vars(import_module(module)).items()}
    found = [known[suite + how] for how in ("", *HOW) if suite + how in known]
    assert any(callable(getattr(cls, test, None)) for cls in found)


def test_what_is_listed_as_not_run_is_a_test_of_beams_and_nothing_else_is_left_out():
    beams = {test for test in dir(fn_runner_test.FnApiRunnerSplitTest) if test.startswith("test_")}
    ours = test_in_rounds.FnApiRunnerSplitSuiteInRounds
    left_out = {test for test in beams if getattr(ours, test) is None}
    assert left_out == {test.removeprefix("FnApiRunnerSplitSuite.") for test in NOT_RUN}
