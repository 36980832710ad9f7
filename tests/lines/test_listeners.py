"""Listeners: at TCP addresses and at Unix sockets that no other user can reach."""

from __future__ import annotations

import os
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sparkdrain.lines.encrypted import Certificate
from sparkdrain.lines.server import Server, TcpBind, UnixBind

if TYPE_CHECKING:
    from sparkdrain.lines.line import Line


def echo(line: Line) -> None:
    while True:
        line.send_bytes(line.recv_bytes())


@pytest.fixture(params=["tcp", "tls", "unix"])
def bind(request, tmp_path):
    if request.param == "unix":
        return UnixBind(str(tmp_path))
    certificate = Certificate.make() if request.param == "tls" else None
    return TcpBind("127.0.0.1", "127.0.0.1", certificate)


@pytest.fixture
def server(bind):
    running = Server(bind, "echo", echo)
    yield running
    running.close()


def test_messages_of_any_size_come_back(server) -> None:
    with server.endpoint.dial() as line:
        for message in [b"", b"a", b"x" * 5_000_000]:
            line.send_bytes(message)
            assert line.recv_bytes() == message


def test_who_has_another_key_is_not_served(server) -> None:
    with pytest.raises(Exception, match=r"digest|reset|pipe|^$"):
        replace(server.endpoint, key=b"another key").dial()


def test_what_is_said_of_an_endpoint_has_no_key(server) -> None:
    assert repr(server.endpoint.key) not in f"{server.endpoint} {server.endpoint!r}"


def test_a_message_that_is_too_long_is_not_taken(server) -> None:
    with server.endpoint.dial() as line:
        line.send_bytes(b"12345678")
        with pytest.raises(OSError, match="at most 5 bytes"):
            line.recv_bytes(5)


def test_a_crowd_of_friends_gets_in(server) -> None:
    start = threading.Barrier(100)

    def visit(number: int) -> int:
        start.wait()
        with server.endpoint.dial() as line:
            line.send_bytes(b"%d" % number)
            return int(line.recv_bytes())

    with ThreadPoolExecutor(100) as pool:
        assert list(pool.map(visit, range(100))) == list(range(100))


def test_when_it_is_closed_nothing_listens_and_no_thread_is_left(bind) -> None:
    server = Server(bind, "short", echo)
    server.endpoint.dial().close()
    server.close()
    server.close()
    with pytest.raises((ConnectionRefusedError, FileNotFoundError)):
        server.endpoint.dial()
    assert not [thread for thread in threading.enumerate() if thread.name == "short"]


def test_a_unix_socket_is_for_this_user_only_and_goes_with_its_listener(tmp_path) -> None:
    umask = os.umask(0)
    try:
        server = Server(UnixBind(str(tmp_path)), "unix", echo)
    finally:
        os.umask(umask)
    (path,) = tmp_path.iterdir()
    assert server.endpoint.address == str(path)
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
    server.close()
    assert list(tmp_path.iterdir()) == []


def test_a_line_that_is_shut_wakes_who_waits_for_a_message(server) -> None:
    with server.endpoint.dial() as line:
        threading.Timer(0.1, line.shut).start()
        began = time.monotonic()
        with pytest.raises((EOFError, OSError)):
            line.recv_bytes()
        assert time.monotonic() - began < 10
