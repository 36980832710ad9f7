"""Results are gathered as long as they share a context, and go on in parts."""

from __future__ import annotations

import pytest
from apache_beam.transforms.window import GlobalWindow, IntervalWindow, WindowedValue

from sparkdrain.harness.way_out import Gathering

MOST_AT_ONCE = 10_000


class Chain:
    """Notes down what it is to run."""

    checks_results = True

    def __init__(self, error=None):
        self.runs = []
        self.error = error

    def run(self, values, context):
        if self.error is not None:
            raise self.error
        self.runs.append((list(values), context))

    def reraise(self, error):
        raise error


def made_at(time, window=GlobalWindow()):
    return WindowedValue(None, time, (window,))


def test_results_of_elements_that_share_their_context_go_on_together():
    chain = Chain()
    gathering = Gathering(chain)
    first = made_at(1, IntervalWindow(0, 2))
    gathering.handle_results(first, ["a", "b"])
    gathering.handle_results(made_at(1, IntervalWindow(0, 2)), iter("c"))
    gathering.handle_results(made_at(1, IntervalWindow(0, 3)), ("d",))
    gathering.handle_results(made_at(2, IntervalWindow(0, 3)), [])
    gathering.handle_results(made_at(1, IntervalWindow(0, 3)), ["e"])
    assert [values for values, _ in chain.runs] == [["a", "b", "c"], ["d"]]
    assert chain.runs[0][1] is first
    gathering.flush()
    gathering.flush()
    assert [values for values, _ in chain.runs] == [["a", "b", "c"], ["d"], ["e"]]


def test_what_one_element_makes_goes_on_before_all_of_it_is_made():
    chain = Chain()
    gathering = Gathering(chain)
    ahead = []

    def results():
        for number in range(100_000):
            ahead.append(number - sum(len(values) for values, _ in chain.runs))
            yield number

    gathering.handle_results(made_at(1), results())
    gathering.flush()
    assert [value for values, _ in chain.runs for value in values] == list(range(100_000))
    assert max(ahead) < MOST_AT_ONCE


def test_what_fails_behind_is_of_no_key_that_is_known():
    gathering = Gathering(Chain(ValueError("behind")))
    gathering.handle_results(made_at(1), ["a"])
    with pytest.raises(ValueError, match="behind") as raised:
        gathering.handle_results(made_at(2), ["b"])
    assert raised.value.is_behind_keys


@pytest.mark.parametrize("results", ["text", b"bytes", {"a": 1}])
def test_what_is_no_iterable_of_results_is_refused(results):
    with pytest.raises(TypeError, match="is not allowed"):
        Gathering(Chain()).handle_results(made_at(1), results)
