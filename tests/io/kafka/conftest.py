"""Fixtures: brokers in this process."""

from __future__ import annotations

import pytest
from fake_kafka import FakeKafka

from sparkdrain.io.kafka import choose


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    """What every transform in the test connects to."""
    fake = FakeKafka()
    monkeypatch.setattr(choose, "open_client", fake.open_client)
    return fake
