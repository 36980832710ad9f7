"""Which user has connected is read from the tables of Linux."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest
from apache_beam.portability.api import beam_provision_api_pb2
from fake_engine import FakeEngine

from sparkdrain import peers
from sparkdrain.fnapi.process import Life
from sparkdrain.fnapi.services import Admitted, SdkServices
from sparkdrain.fnapi.worker import SdkWorker
from sparkdrain.peers import users_at
from sparkdrain.server.security import Security
from sparkdrain.server.server import StandingServer
from sparkdrain.server.settings import ServerSettings
from sparkdrain.strangers import AskForUser, is_own
from tests.support.stranger import UID, as_stranger
from tests.support.thread_driver import ThreadDrivers
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")

CALL = f"""
import os, sys
user, address, method, *metadata = sys.argv[1:]
if int(user):
    os.setgroups([])
    os.setgid({UID})
    os.setuid(int(user))
with grpc.insecure_channel(address) as channel:
    call = channel.unary_unary(method)
    try:
        call(b"", timeout=30, metadata=[tuple(each.split("=")) for each in metadata])
    except grpc.RpcError as error:
        print(error.code().name, error.details())
    else:
        print("OK")
"""
GET_JOBS = "/org.apache.beam.model.job_management.v1.JobService/GetJobs"


def answer(user: int, address: str, method: str, *metadata: str) -> str:
    """What a process of a user gets from a call."""
    # The stranger may not read this user's folders, so modules are loaded before.
    program = "import grpc, grpc._channel\n" + CALL
    done = subprocess.run(
        [sys.executable, "-c", program, str(user), address, method, *metadata],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("family", "host", "kind"),
    [
        (socket.AF_INET, "127.0.0.1", "ipv4:127.0.0.1:{}"),
        (socket.AF_INET6, "::1", "ipv6:%5B::1%5D:{}"),
        # As Java does.
        (socket.AF_INET6, "::ffff:127.0.0.1", "ipv4:127.0.0.1:{}"),
    ],
)
def test_the_user_of_a_connection_is_told_until_it_hangs_up(family, host, kind):
    here = socket.AF_INET6 if host == "::1" else socket.AF_INET
    with socket.create_server(
        (("::1" if host == "::1" else "127.0.0.1"), 0), family=here
    ) as server:
        port = server.getsockname()[1]
        client = socket.socket(family)
        client.connect((host, port))
        accepted, _ = server.accept()
        with accepted:
            peer = kind.format(client.getsockname()[1])
            assert users_at(peer, {port}) == {os.geteuid()}
            assert users_at(peer, {port + 1}) == set()
            # The kernel says that a socket which nobody has is root's.
            client.close()
            wait_until(lambda: users_at(peer, {port}) == set(), 10)


def test_what_is_no_tcp_connection_has_no_user():
    assert users_at("unix:", {1}) is None
    assert users_at("unix:/a/b", {1}) is None


def test_where_the_system_tells_nothing_nobody_is_known(monkeypatch):
    monkeypatch.setattr(peers, "_TABLES", ("/no/such/table",))
    assert users_at("ipv4:127.0.0.1:1", {1}) is None
    AskForUser({1}, is_own, "")._ask(_Context())


class _Context:
    def peer(self):
        return "ipv4:127.0.0.1:1"

    def abort(self, code, why):
        raise PermissionError(why)


def test_who_is_not_to_be_found_is_not_let_in():
    with pytest.raises(PermissionError, match="unknown"):
        AskForUser({1}, is_own, "")._ask(_Context())


def test_the_user_of_this_process_and_root_are_friends():
    assert is_own(0)
    assert is_own(os.geteuid())
    assert not is_own(os.geteuid() + 1)


@pytest.fixture
def at_server():
    """Starts a server; its address."""
    servers = []

    def start(**settings) -> str:
        engine = FakeEngine()
        given = {"job_port": 0, "max_jobs": 1, "is_warm": False, **settings}
        servers.append(StandingServer(ServerSettings(**given), engine, ThreadDrivers(engine)))
        return servers[-1].start()

    yield start
    for server in servers:
        server.stop()


@as_stranger
def test_a_server_without_a_token_is_for_its_own_user(at_server):
    address = at_server()
    assert answer(0, address, GET_JOBS) == "OK"
    told = answer(UID, address, GET_JOBS)
    assert told.startswith(f"PERMISSION_DENIED The user {UID} of this machine has connected")
    assert "--token-file, or with --insecure" in told
    assert answer(UID, address, "/grpc.health.v1.Health/Check") == "OK"


@as_stranger
@pytest.mark.parametrize(
    ("settings", "metadata"),
    [
        ({"is_insecure": True}, ()),
        ({"security": Security(token="t" * 16)}, (f"authorization=Bearer {'t' * 16}",)),
    ],
)
def test_other_users_come_in_with_a_token_or_where_it_is_said(at_server, settings, metadata):
    address = at_server(**settings)
    assert answer(UID, address, GET_JOBS, *metadata) == "OK"


@as_stranger
def test_the_id_of_a_harness_in_a_container_is_not_enough():
    """Every user can read it, among the arguments of the container's command."""
    made = SdkServices()
    worker = SdkWorker("known-to-all", Life())
    made.admit(Admitted(worker, beam_provision_api_pb2.ProvisionInfo(), {}))
    method = "/org.apache.beam.model.fn_execution.v1.ProvisionService/GetProvisionInfo"
    try:
        for user, told in ((0, "OK"), (UID, "PERMISSION_DENIED"), (UID - 77, "OK")):
            got = answer(user, made.here(), method, "worker_id=known-to-all")
            assert got.startswith(told), "a user without an account is one of a container"
        # Of a pool, the address is not known to others, nor is the id.
        assert answer(UID, made.at("127.0.0.1"), method, "worker_id=known-to-all") == "OK"
    finally:
        made.stop()


def test_settings_that_ask_clients_for_nothing_are_for_one_user():
    assert ServerSettings().is_for_own_user
    assert ServerSettings(security=Security(b"x", b"y")).is_for_own_user
    assert not ServerSettings(security=Security(token="t" * 16)).is_for_own_user
    assert not ServerSettings(security=Security(b"x", b"y", b"z")).is_for_own_user
    assert not ServerSettings(is_insecure=True).is_for_own_user
