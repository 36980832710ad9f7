"""A lost broker is told of once a minute."""

from __future__ import annotations

import logging

from sparkdrain.io.kafka.quiet_log import OncePerMinute


def test_a_message_comes_through_once_a_minute_whatever_its_numbers():
    now = 0.0
    quiet = OncePerMinute(lambda: now)

    def passes(text: str) -> bool:
        return quiet.filter(logging.LogRecord("n", logging.ERROR, "f", 1, text, None, None))

    assert passes("broker 1 is gone after 17 ms")
    assert not passes("broker 2 is gone after 3 ms")
    assert passes("something else")
    now = 61.0
    assert passes("broker 1 is gone after 18 ms")
