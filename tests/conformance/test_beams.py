"""A suite is left out only where Beam does not have what it tests."""

from __future__ import annotations

import pytest
from apache_beam.transforms import window_test
from beams import suites_of


def test_suites_that_are_there_are_found():
    found = suites_of({"apache_beam.transforms.window_test": ("WindowTest",)})
    assert list(found) == [("WindowTest", window_test.WindowTest)]


def test_what_this_beam_does_not_have_is_left_out():
    assert not list(suites_of({"apache_beam.transforms.nothing_test": ("NothingTest",)}))


def test_a_suite_that_was_renamed_is_an_error():
    # Beam has the module `apache_beam.version`, and no tests of it.
    with pytest.raises(ModuleNotFoundError):
        list(suites_of({"apache_beam.version_test": ("VersionTest",)}))
    with pytest.raises(AttributeError):
        list(suites_of({"apache_beam.transforms.window_test": ("RenamedTest",)}))
