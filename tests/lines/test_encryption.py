"""Encrypted lines: nothing is said in clear, and only one certificate is accepted."""

from __future__ import annotations

import pickle
import select
import socket
import sys
import threading
from dataclasses import replace

import pytest

from sparkdrain.errors import BadSetup
from sparkdrain.lines.door import Door
from sparkdrain.lines.encrypted import Certificate
from sparkdrain.lines.line import Endpoint, Line
from sparkdrain.lines.server import Server, TcpBind
from tests.support.waiting import wait_until

SAID = b"what nobody else is to read"


@pytest.fixture(scope="module")
def certificate():
    return Certificate.make()


@pytest.fixture
def served():
    return []


@pytest.fixture
def server(certificate, served):
    def serve(line: Line) -> None:
        while True:
            served.append(line.recv_bytes())
            line.send_bytes(served[-1])

    running = Server(TcpBind("127.0.0.1", "127.0.0.1", certificate), "encrypted", serve)
    yield running
    running.close()


class Wiretap:
    """Passes bytes between who dials it and a listener, and keeps them."""

    def __init__(self, address) -> None:
        self.bytes = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listens_to = address
        self.address = self._listener.getsockname()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with (
            self._listener,
            self._listener.accept()[0] as one,
            socket.create_connection(self._listens_to) as other,
        ):
            while True:
                ready, _, _ = select.select([one, other], [], [])
                for end in ready:
                    part = end.recv(1 << 16)
                    if not part:
                        return
                    self.bytes += part
                    (other if end is one else one).sendall(part)


def heard(endpoint: Endpoint) -> bytes:
    """What somebody between both ends hears of a message and its answer."""
    wiretap = Wiretap(endpoint.address)
    with replace(endpoint, address=wiretap.address).dial() as line:
        line.send_bytes(SAID)
        assert line.recv_bytes() == SAID
    return wiretap.bytes


def test_nothing_is_said_in_clear(server) -> None:
    told = heard(server.endpoint)
    assert SAID not in told
    assert b"#CHALLENGE#" not in told


def test_a_wiretap_hears_what_is_not_encrypted() -> None:
    def echo(line: Line) -> None:
        line.send_bytes(line.recv_bytes())

    server = Server(TcpBind("127.0.0.1", "127.0.0.1"), "clear", echo)
    assert SAID in heard(server.endpoint)
    server.close()


@pytest.mark.parametrize("other", [None, Certificate.make()])
def test_who_has_the_key_but_not_the_certificate_is_not_served(
    server, served, other, monkeypatch
) -> None:
    monkeypatch.setattr(server._door, "_seconds", 0.5)
    with pytest.raises((OSError, EOFError)), replace(server.endpoint, certificate=other).dial():
        pass
    assert served == []


def test_a_listener_with_another_certificate_hears_nothing(server, certificate) -> None:
    """Somebody who took over the port, and knows the key."""
    other = Certificate.make()
    impostor = Server(TcpBind("127.0.0.1", "127.0.0.1", other), "impostor", lambda line: None)
    with pytest.raises(OSError, match=r"(?i)certificate"):
        Endpoint(impostor.endpoint.address, impostor.endpoint.key, certificate).dial()
    impostor.close()


def test_a_certificate_signed_by_that_of_the_job_is_not_that_of_the_job(certificate) -> None:
    """The certificate is compared, not only its signature."""
    ours, theirs = socket.socketpair()
    line = Line(ours)
    wrapped = certificate.wrap(theirs, server=True)
    wrapped._wanted = b"another"
    errors = []

    def answer() -> None:
        try:
            wrapped.handshake()
        except OSError as error:
            errors.append(str(error))

    thread = threading.Thread(target=answer)
    thread.start()
    line.encrypt(certificate, server=False)
    thread.join()
    assert "another job" in errors[0]
    line.close()
    wrapped.close()


def test_a_stranger_who_begins_a_handshake_and_stays_silent_is_sent_away(certificate) -> None:
    outside, inside = socket.socketpair()
    with outside, Line(inside) as line:
        assert not Door(b"key", 0.3, certificate=certificate).admits(line)


def test_large_messages_cross_in_both_directions_at_once(server) -> None:
    """One thread sends while the other receives, on both ends."""
    sent = [bytes([number]) * 1_000_000 for number in range(20)]
    with server.endpoint.dial() as line:
        sender = threading.Thread(target=lambda: [line.send_bytes(each) for each in sent])
        sender.start()
        assert [line.recv_bytes() for _ in sent] == sent
        sender.join()


def test_two_messages_that_come_at_once_are_noticed_one_by_one(certificate) -> None:
    """A warden waits for its descriptor, then reads one message."""

    def serve(line: Line) -> None:
        line.send_bytes(b"one")
        line.send_bytes(b"two")
        line.recv_bytes()

    server = Server(TcpBind("127.0.0.1", "127.0.0.1", certificate), "twice", serve)
    with server.endpoint.dial() as line:
        for wanted in (b"one", b"two"):
            assert line.poll(20)
            assert line.recv_bytes() == wanted
        assert not line.poll(0.1)
    server.close()


def test_the_pair_travels_and_is_not_shown(certificate, server) -> None:
    assert pickle.loads(pickle.dumps(server.endpoint)) == server.endpoint
    shown = f"{certificate!r} {certificate} {server.endpoint!r}"
    assert "BEGIN" not in shown
    assert "PRIVATE" not in shown


def test_without_the_package_there_is_an_error_with_the_remedy(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(BadSetup, match="pip install cryptography"):
        Certificate.make()


def test_a_line_ends_for_both_when_one_closes_it(server, served) -> None:
    with server.endpoint.dial() as line:
        line.send_bytes(SAID)
        assert line.recv_bytes() == SAID
    wait_until(
        lambda: not [each for each in threading.enumerate() if each.name == "encrypted-line"]
    )
