"""Spark is started once more if its own parts disturbed each other, and for no other reason."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError

from sparkdrain.stages.spark.session import new_context


def attempts(*outcomes):
    """A way to make a context: of each attempt, what is raised or returned."""
    left = [*outcomes]

    def make(conf):
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return make


DISTURBED = Py4JError("None.JavaSparkContext.\n: java.util.ConcurrentModificationException\n\tat x")


def test_after_it_was_disturbed():
    assert new_context("conf", attempts(DISTURBED, "context")) == "context"


def test_not_a_third_time():
    with pytest.raises(Py4JError, match="ConcurrentModification"):
        new_context("conf", attempts(DISTURBED, DISTURBED, "context"))


def test_not_after_another_error():
    with pytest.raises(Py4JError, match="no such queue"):
        new_context("conf", attempts(Py4JError("no such queue"), "context"))
