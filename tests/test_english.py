"""Numbers in messages."""

from __future__ import annotations

import doctest

from sparkdrain import english


def test_the_examples_of_each_function_hold():
    assert doctest.testmod(english).failed == 0
    assert doctest.testmod(english).attempted == 2
