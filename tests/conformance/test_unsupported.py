from __future__ import annotations

from importlib import import_module

import pytest
from unsupported import FAILING, HOW

_SUITES = ("test_fn_api_runner", "test_in_rounds", "test_portable_runner", "test_validates_runner")


@pytest.mark.parametrize("name", FAILING)
def test_what_is_listed_as_failing_is_a_test(name):
    suite, test = name.split(".")
    known = {name: cls for module in _SUITES for name, cls in vars(import_module(module)).items()}
    found = [known[suite + how] for how in ("", *HOW) if suite + how in known]
    assert any(callable(getattr(cls, test, None)) for cls in found)
