"""What is done again, how often, and what is left alone."""

from __future__ import annotations

import threading

import pytest

from sparkdrain.io.kafka.errors import KafkaRefused, KafkaUnreachable, KafkaWriteFailed
from sparkdrain.io.kafka.patience import in_time, patiently


class Step:
    """Fails as it is told to, one failure after the other; then says how often it was tried."""

    def __init__(self, *failures):
        self.failures = list(failures)
        self.tried = self.let_go = 0
        self.slept = []

    def __call__(self):
        self.tried += 1
        if self.failures:
            raise self.failures.pop(0)
        return self.tried

    def drop(self):
        self.let_go += 1

    def run(self):
        return patiently(self, self.drop, self.slept.append)


def test_brokers_that_are_away_are_waited_for_however_long():
    step = Step(*[KafkaUnreachable()] * 100)
    assert step.run() == 101
    assert step.let_go == len(step.slept) == 100


def test_a_failure_of_brokers_that_are_there_is_tried_a_few_times():
    step = Step(*[KafkaWriteFailed("no")] * 100)
    with pytest.raises(KafkaWriteFailed, match="no"):
        step.run()
    assert step.tried == step.let_go == 5


def test_failures_count_anew_once_brokers_were_away():
    failures = [*[KafkaWriteFailed()] * 4, KafkaUnreachable(), *[KafkaWriteFailed()] * 4]
    assert Step(*failures).run() == 10


@pytest.mark.parametrize("error", [KafkaRefused(), ValueError(), KeyboardInterrupt()])
def test_what_will_not_get_better_is_raised_at_once_and_nothing_is_left(error):
    step = Step(error)
    with pytest.raises(type(error)):
        step.run()
    assert step.tried == step.let_go == 1


def test_a_step_in_time_returns_or_raises_as_it_does():
    assert in_time(lambda: 7, 60, "nobody") == 7
    with pytest.raises(KeyError):
        in_time(lambda: {}["a"], 60, "nobody")


def test_a_step_that_hangs_is_left_alone():
    end = threading.Event()
    with pytest.raises(KafkaUnreachable, match=r"the broker has not answered for 0\.01 s"):
        in_time(end.wait, 0.01, "the broker")
    end.set()
