"""Slots tell the driver how far they are, and nothing that happens there reaches a task."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading

import pytest

from sparkdrain.lines.line import Endpoint
from sparkdrain.lines.server import TcpBind
from sparkdrain.stages.telling.progress import progress_server, ticking

PATIENCE = 20
BIND = TcpBind("127.0.0.1", "127.0.0.1")


@pytest.fixture
def ticks():
    return queue.Queue()


@pytest.fixture
def listener(ticks):
    running = progress_server(BIND, lambda *tick: ticks.put(tick))
    yield running
    running.close()


def test_what_slots_have_handled_arrives_while_they_work(listener, ticks):
    counts = iter(range(100, 10**9))
    with ticking(listener.endpoint, 3, 1, lambda: next(counts), seconds=0.001):
        assert [ticks.get(timeout=PATIENCE) for _ in range(3)] == [
            (3, 1, 100),
            (3, 1, 101),
            (3, 1, 102),
        ]


def test_many_slots_share_a_listener(listener, ticks):
    seen = set()
    entered = [ticking(listener.endpoint, 0, n, lambda: 5, seconds=0.001) for n in range(20)]
    for one in entered:
        one.__enter__()
    while len(seen) < 20:
        seen.add(ticks.get(timeout=PATIENCE)[1])
    for one in entered:
        one.__exit__(None, None, None)


def test_a_task_that_is_over_soon_says_nothing(listener, ticks):
    with ticking(listener.endpoint, 0, 0, lambda: 1, seconds=60):
        before = [thread for thread in threading.enumerate() if "progress" in thread.name]
    for thread in before:
        if thread.name == "sparkdrain-progress":
            thread.join(PATIENCE)
            assert not thread.is_alive()
    assert ticks.empty()


def test_without_an_address_there_is_no_thread():
    before = threading.active_count()
    with ticking(None, 0, 0, lambda: 1, seconds=0.001):
        assert threading.active_count() == before


def test_a_driver_that_is_not_there_does_not_reach_the_task():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    failing = threading.Event()

    def handled() -> int:
        failing.set()
        msg = "never asked"
        raise AssertionError(msg)

    with ticking(Endpoint(("127.0.0.1", port), bytes(16)), 0, 0, handled, seconds=0.001):
        names = [thread for thread in threading.enumerate() if thread.name == "sparkdrain-progress"]
        for thread in names:
            thread.join(PATIENCE)
    assert not failing.is_set()


def test_a_count_that_fails_does_not_reach_the_task(listener, ticks):
    asked = threading.Event()

    def handled() -> int:
        asked.set()
        msg = "changed while it was read"
        raise KeyError(msg)

    with ticking(listener.endpoint, 0, 0, handled, seconds=0.001):
        assert asked.wait(PATIENCE)
    assert ticks.empty()


def test_a_stranger_without_the_key_is_not_heard(listener, ticks):
    with socket.create_connection(listener.endpoint.address) as stranger:
        stranger.sendall(bytes(16) + bytes(160))
        stranger.settimeout(PATIENCE)
        with contextlib.suppress(ConnectionResetError):
            while stranger.recv(1000):  # the challenge, then it hangs up
                pass
    assert ticks.empty()


def test_a_stranger_that_is_silent_is_sent_away(listener, monkeypatch):
    monkeypatch.setattr(listener._door, "_seconds", 0.5)
    with socket.create_connection(listener.endpoint.address) as stranger:
        stranger.settimeout(PATIENCE)
        while stranger.recv(1000):
            pass


def test_what_comes_after_the_end_is_not_taken(listener, ticks):
    with listener.endpoint.dial() as line:
        line.send_bytes(bytes([0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0]))
        assert ticks.get(timeout=PATIENCE) == (2, 1, 256)
        listener.close()
        with contextlib.suppress(OSError):
            for _ in range(3):
                line.send_bytes(bytes(16))
        line.poll(PATIENCE)
    assert ticks.empty()
