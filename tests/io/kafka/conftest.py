"""Fixtures: brokers in this process."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from fake_kafka import FakeKafka

from sparkdrain.io.kafka import choose, shared


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    """What every transform in the test connects to."""
    fake = FakeKafka()
    monkeypatch.setattr(choose, "open_client", fake.open_client)
    return fake


class Worker:
    """The clocks of the process that reads. Time goes on by itself, too."""

    ahead = 0.0
    """By how many seconds its clock is ahead of the brokers', which is right."""
    skipped = 0.0

    def skip(self, seconds: float) -> None:
        """Have so many seconds pass."""
        self.skipped += seconds

    def right_time(self) -> float:
        return time.time() + self.skipped


@pytest.fixture
def worker(kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> Worker:
    """Whose clock may be wrong, unlike that of ``kafka``."""
    worker = Worker()
    clocks = SimpleNamespace(
        time=lambda: worker.right_time() + worker.ahead,
        monotonic=lambda: time.monotonic() + worker.skipped,
    )
    monkeypatch.setattr(shared, "time", clocks)
    kafka.now = worker.right_time
    return worker
