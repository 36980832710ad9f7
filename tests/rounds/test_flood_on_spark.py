"""Slow: strangers in crowds at every listener of a stream, whose processes may open few files."""

from __future__ import annotations

import time

import pytest

from tests.support.flood import flooded
from tests.support.steady_stream import SteadyStream
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILES = 1024
SILENT = 1000
SECONDS = 30.0


def test_a_crowd_of_strangers_at_each_listener_stops_no_round_and_uses_no_file_up(tmp_path):
    stream = SteadyStream(tmp_path, FILES, "--spark_master_url=local-cluster[1,4,1024]")
    try:
        ports = stream.ports()
        assert len(ports) >= 6, "leash, hosts, balancer, failures, progress, the end of the batch"
        most = 0
        with flooded(ports, SILENT) as opened:
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                rounds, kept = len(stream.rounds()), stream.checkpoint()
                wait_until(lambda: len(stream.rounds()) > rounds + 5, 20)  # noqa: B023
                wait_until(lambda: stream.checkpoint() > kept, 20)  # noqa: B023
                most = max(most, stream.handles())
        assert min(opened.values()) > SILENT, opened
        assert len(opened) == len(ports)
        assert sorted(stream.ports()) == sorted(ports), "a host was lost"
        assert most < FILES / 2, "open files"
    finally:
        stream.end()
    assert "Too many open files" not in stream.said()
