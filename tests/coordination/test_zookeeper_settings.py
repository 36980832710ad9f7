"""A store in ZooKeeper is opened within a time, and says who may use it; without ZooKeeper."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time

import pytest

from sparkdrain import redaction
from sparkdrain.coordination.backends.zookeeper import AUTH, Backend, ZooKeeperStore
from sparkdrain.errors import BadSetup
from sparkdrain.redaction import redact

SESSION = struct.pack(">iiqi16s", 0, 40_000, 7, 16, b"p" * 16)


@pytest.fixture
def silent_server():
    """A server that takes connections, makes a session if wanted, and answers nothing else."""
    with socket.create_server(("127.0.0.1", 0)) as listener, contextlib.ExitStack() as lines:

        def start(*, makes_a_session: bool) -> str:
            def serve() -> None:
                with contextlib.suppress(OSError):
                    while True:
                        line = lines.enter_context(listener.accept()[0])
                        if makes_a_session:
                            line.recv(1000)
                            line.sendall(struct.pack(">i", len(SESSION)) + SESSION)

            threading.Thread(target=serve, daemon=True).start()
            return f"127.0.0.1:{listener.getsockname()[1]}/runs"

        yield start
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("makes_a_session", [False, True])
def test_a_server_that_says_nothing_is_given_up(silent_server, makes_a_session):
    place = silent_server(makes_a_session=makes_a_session)
    began = time.monotonic()
    with pytest.raises(BadSetup, match=f"zookeeper:{place} does not answer within 0.5 s") as told:
        ZooKeeperStore(place, seconds=0.5)
    assert "See that ZooKeeper runs there" in str(told.value)
    assert time.monotonic() - began < 8


@pytest.mark.parametrize("auth", ["sesame-without-a-user", "user:", ":sesame-without-a-user"])
def test_what_is_no_user_and_password_is_refused_and_not_shown(monkeypatch, auth):
    monkeypatch.setattr(redaction._Known, "values", ())
    monkeypatch.setenv(AUTH, auth)
    for use in (lambda: Backend().open("h:1"), lambda: Backend().prepare("h:1", group=False)):
        with pytest.raises(BadSetup, match=f"{AUTH} does not hold user:password") as told:
            use()
        assert "sesame" not in str(told.value)


def test_a_password_is_hidden_in_all_texts(monkeypatch):
    monkeypatch.setattr(redaction._Known, "values", ())
    monkeypatch.setenv(AUTH, "me:open-sesame")
    assert Backend().prepare("h:1", group=False) == []
    assert redact("it was open-sesame") == "it was ***"


def test_a_store_that_everybody_may_change_is_told_of(monkeypatch):
    monkeypatch.delenv(AUTH, raising=False)
    (complaint,) = Backend().prepare("h:1/runs", group=False)
    assert "Everybody who reaches ZooKeeper at h:1/runs may read and change" in complaint
    assert AUTH in complaint
