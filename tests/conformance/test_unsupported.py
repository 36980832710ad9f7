from __future__ import annotations

import importlib

import pytest
from unsupported import UNSUPPORTED

_SUITES = ("test_fn_api_runner", "test_portable_runner", "test_validates_runner")


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_is_listed_as_unsupported_is_a_test(name):
    suite, test = name.split(".")
    modules = map(importlib.import_module, _SUITES)
    (cls,) = {getattr(module, suite) for module in modules if hasattr(module, suite)}
    assert callable(getattr(cls, test))
