"""Errors of harnesses go from a worker to the driver as they are."""

from __future__ import annotations

import pickle

import pytest

from sparkdrain.fnapi.errors import garbled, lost


@pytest.mark.parametrize("error", [lost("it was killed"), garbled("no such coder")])
def test_an_error_says_the_same_on_the_driver(error: Exception) -> None:
    there = pickle.loads(pickle.dumps(error))
    assert (type(there), str(there)) == (type(error), str(error))
