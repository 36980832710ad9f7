"""Two checkouts in turns: each session has the code of its own, and ratios are those of pairs."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks import turns
from benchmarks.plan import OWN, ROOT, Plan
from benchmarks.rows import Row
from benchmarks.runners import OURS, runner_named


def test_a_session_imports_the_modules_of_its_checkout_first():
    runner = runner_named(OURS)
    for checkout in (ROOT, Path("/older")):
        plan = Plan((runner,), 1, 1.0, 1.0, Path(), {runner.needs: OWN}, checkout)
        path = plan.environment(runner)["PYTHONPATH"].split(os.pathsep)
        assert path[:2] == [str(checkout), str(checkout / "runner")]


def test_a_machine_that_is_slow_for_one_pair_changes_no_ratio():
    here = Row("j", OURS, OURS, 10, 10, seconds=[1.0, 9.0, 1.0], cpu=[2.0, 9.0, 2.0])
    there = Row("j", OURS, OURS, 10, 10, seconds=[2.0, 18.0, 2.0], cpu=[4.0, 18.0, 4.0])
    assert turns._row(here, there) == "| j | 10 | 3 | 1.00 | 2.00 | 2.000 | 0.500 | 0, 0 |"
