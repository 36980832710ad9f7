"""What docs/capability.md says of Beam's tests is how the suites mark them."""

from __future__ import annotations

import re
import unittest
from importlib import import_module
from inspect import isclass
from pathlib import Path

from unsupported import HOW

from tests.proofs.slow_tests import OF_BEAM, ROOT, is_slow


def test_tests_of_beams_are_called_slow_if_the_default_run_has_them_in_no_way():
    page = (ROOT / "docs" / "capability.md").read_text(encoding="utf-8")
    shown, _, _ = page.partition("## Tests of Beam's that fail here")
    rests_on = set(re.findall(r"`((?:\w+\.)?test_\w+)`", shown))
    assert {test for test in rests_on if is_slow(test)} == rests_on - set(by_default())
    assert rests_on >= OF_BEAM, "a test stands in no row any more"
    for test in rests_on:
        assert (f"`{test}` (slow proof: conformance" in shown) == is_slow(test)


def by_default():
    """The tests that are not slow in one suite at least: alone, and with what Beam calls it."""
    for path in Path(__file__).parent.glob("test_*.py"):
        module = import_module(path.stem)
        for suite in vars(module).values() if not is_marked(module) else ():
            if isclass(suite) and issubclass(suite, unittest.TestCase) and not is_left_out(suite):
                for test in filter(re.compile("test_").match, dir(suite)):
                    run = getattr(suite, test)
                    if callable(run) and not is_marked(run):
                        yield from (test, f"{of_beam(suite.__name__)}.{test}")


def is_left_out(suite):
    return any(map(is_marked, suite.__mro__)) or not getattr(suite, "__test__", True)


def is_marked(thing):
    marks = vars(thing).get("pytestmark", [])
    return any(mark.name == "slow" for mark in (marks if isinstance(marks, list) else [marks]))


def of_beam(suite):
    for how in HOW:
        suite = suite.removesuffix(how)
    return suite.replace("Suite", "Test")
