"""What tests of rounds share."""

from __future__ import annotations

import pytest

from sparkdrain.harness import stateful


@pytest.fixture
def calls(monkeypatch):
    """The calls of stateful DoFns that were generated; None for each that was left to Beam."""
    found = []
    generate = stateful.stateful_calls
    monkeypatch.setattr(
        "sparkdrain.harness.bundle.stateful_calls",
        lambda *args: found.append(generate(*args)) or found[-1],
    )
    return found
