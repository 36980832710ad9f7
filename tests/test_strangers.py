"""Who reaches a gRPC listener and shows nothing holds no thread, and no connection for long."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import Counter
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING

import grpc
import psutil
import pytest
from apache_beam.portability.api import (
    beam_fn_api_pb2,
    beam_fn_api_pb2_grpc,
    beam_job_api_pb2_grpc,
    beam_provision_api_pb2,
    beam_provision_api_pb2_grpc,
)
from apache_beam.portability.api import beam_job_api_pb2 as api
from fake_engine import FakeEngine
from grpc_health.v1 import health_pb2, health_pb2_grpc

from sparkdrain.fnapi import services as fnapi
from sparkdrain.fnapi.process import Life
from sparkdrain.fnapi.services import Admitted, SdkServices
from sparkdrain.fnapi.worker import SdkWorker
from sparkdrain.server import security
from sparkdrain.server import server as standing
from sparkdrain.server.security import Security
from sparkdrain.server.server import StandingServer
from sparkdrain.server.settings import ServerSettings
from sparkdrain.strangers import OpenCalls, short_stay
from tests.support.thread_driver import ThreadDrivers
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CROWD = 100
PROOF = "a-worker-id-or-a-token-that-is-secret"


@dataclass
class Listener:
    """A listener at a port.

    Attributes:
        address: its host and port.
        methods: some of what it serves.
        refusal: what strangers get.
        friend: calls it, with what it asks for; returns the answer.
    """

    address: str
    methods: tuple[str, ...]
    refusal: grpc.StatusCode
    friend: Callable[[], object]

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])


def harness_services() -> Iterator[Listener]:
    made = SdkServices()
    worker = SdkWorker(PROOF, Life())
    made.admit(Admitted(worker, beam_provision_api_pb2.ProvisionInfo(), {}))
    address = made.at("127.0.0.1")

    def friend() -> object:
        with grpc.insecure_channel(address) as channel:
            stub = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
            request = beam_provision_api_pb2.GetProvisionInfoRequest()
            metadata = (("worker_id", PROOF),)
            return stub.GetProvisionInfo(
                request, metadata=metadata, timeout=30, wait_for_ready=True
            )

    beam = "/org.apache.beam.model"
    yield Listener(
        address,
        (
            f"{beam}.fn_execution.v1.BeamFnControl/Control",
            f"{beam}.fn_execution.v1.BeamFnState/State",
            f"{beam}.fn_execution.v1.ProvisionService/GetProvisionInfo",
            f"{beam}.job_management.v1.ArtifactRetrievalService/GetArtifact",
            f"{beam}.job_management.v1.ArtifactRetrievalService/ResolveArtifacts",
        ),
        grpc.StatusCode.PERMISSION_DENIED,
        friend,
    )
    made.stop()


def standing_server() -> Iterator[Listener]:
    engine = FakeEngine()
    settings = ServerSettings(job_port=0, max_jobs=1, is_warm=False, security=Security(token=PROOF))
    server = StandingServer(settings, engine, ThreadDrivers(engine))
    address = server.start()

    def friend() -> object:
        with grpc.insecure_channel(address) as channel:
            stub = beam_job_api_pb2_grpc.JobServiceStub(channel)
            metadata = (("authorization", f"Bearer {PROOF}"),)
            request = api.GetJobsRequest()
            return stub.GetJobs(request, metadata=metadata, timeout=30, wait_for_ready=True)

    job = "/org.apache.beam.model.job_management.v1"
    yield Listener(
        address,
        (
            f"{job}.JobService/Prepare",
            f"{job}.JobService/GetMessageStream",
            f"{job}.ArtifactStagingService/ReverseArtifactRetrievalService",
            "/grpc.health.v1.Health/Watch",
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        ),
        grpc.StatusCode.UNAUTHENTICATED,
        friend,
    )
    server.stop()


@pytest.fixture(params=[harness_services, standing_server])
def listener(request, monkeypatch) -> Iterator[Listener]:
    """With the real limits, only sooner and lower."""

    def shorter(most: int, *meet: int) -> tuple[tuple[str, int], ...]:
        *times, (limit, _) = short_stay(most, *(seconds // 12 for seconds in meet))
        return *((name, value // 10) for name, value in times), (limit, 40)

    for module in (fnapi, standing):
        assert module.short_stay is short_stay
        monkeypatch.setattr(module, "short_stay", shorter)
    yield from request.param()


def never() -> Iterator[bytes]:
    """Messages of a call that sends none and does not end."""
    threading.Event().wait(60)
    yield b""


def ends_with(call) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as caught:
        call.result()
    return caught.value.code()


def threads() -> int:
    return threading.active_count()


def test_calls_that_show_nothing_are_refused_before_their_message_comes(listener):
    with grpc.insecure_channel(listener.address) as channel:
        for method in listener.methods:
            # On the wire, a call of one message is a stream.
            call = channel.stream_unary(method)
            asked = [call.future(never(), timeout=20) for _ in range(3)]
            assert {ends_with(each) for each in asked} == {listener.refusal}, method
    listener.friend()


def connections(port: int) -> int:
    """Those that the listener of this process has."""
    found = psutil.Process().net_connections("inet")
    return sum(one.laddr.port == port and one.status == "ESTABLISHED" for one in found)


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
ACKNOWLEDGED = bytes([0, 0, 0, 4, 1, 0, 0, 0, 0])


@pytest.mark.parametrize("said", [b"", PREFACE, PREFACE + ACKNOWLEDGED])
def test_a_crowd_is_kept_small_and_sent_away_in_time(listener, said):
    crowd = []
    try:
        for _ in range(CROWD):
            crowd.append(socket.create_connection(("127.0.0.1", listener.port)))
            crowd[-1].sendall(said)
        wait_until(lambda: connections(listener.port), 10)
        assert connections(listener.port) <= 40
        before = threads()
        listener.friend()
        assert threads() <= before + 5
        # Nobody of the crowd hangs up: the listener does.
        wait_until(lambda: connections(listener.port) == 0, 30)
    finally:
        for each in crowd:
            each.close()


def test_a_harness_on_a_busy_machine_has_a_minute_for_its_first_words(monkeypatch):
    """A JVM that was stopped for 6 s while it connected was lost, or waited for ever."""
    given = []

    def server(*arguments, options, **named):
        given.append(dict(options))
        return grpc.server(*arguments, options=options, **named)

    monkeypatch.setattr(fnapi, "grpc", SimpleNamespace(**{**vars(grpc), "server": server}))
    made = SdkServices()
    made.here()
    made.stop()
    assert len(given) == 2
    for options in given:
        assert options["grpc.server_handshake_timeout_ms"] == 60_000
        assert options["grpc.http2.settings_timeout"] == 60_000
        assert options["grpc.max_connection_idle_ms"] == 60_000


def test_harnesses_of_typescript_ask_for_a_descriptor_without_an_id(monkeypatch):
    monkeypatch.setattr(fnapi, "OpenCalls", lambda: OpenCalls(0.5, 3))
    made = SdkServices()
    worker = SdkWorker(PROOF, Life())
    made.admit(Admitted(worker, beam_provision_api_pb2.ProvisionInfo(), {}))
    worker.register(beam_fn_api_pb2.ProcessBundleDescriptor(id="one"))
    try:
        with grpc.insecure_channel(made.at("127.0.0.1")) as channel:
            stub = beam_fn_api_pb2_grpc.BeamFnControlStub(channel)

            def ask(wanted: str) -> str:
                request = beam_fn_api_pb2.GetProcessBundleDescriptorRequest(
                    process_bundle_descriptor_id=wanted
                )
                return str(stub.GetProcessBundleDescriptor(request, timeout=20).id)

            check_open_call(channel, fnapi._DESCRIPTOR, lambda: ask("one") == "one")
            with pytest.raises(grpc.RpcError, match="no descriptor of this id"):
                ask("two")
    finally:
        made.stop()


def test_probes_of_health_need_no_token_and_take_no_thread_for_long(monkeypatch):
    monkeypatch.setattr(security, "OpenCalls", lambda: OpenCalls(0.5, 3))
    with (
        contextlib.contextmanager(standing_server)() as listener,
        grpc.insecure_channel(listener.address) as channel,
    ):
        health = health_pb2_grpc.HealthStub(channel)

        def is_served() -> bool:
            answer = health.Check(health_pb2.HealthCheckRequest(), timeout=20)
            return answer.status == health_pb2.HealthCheckResponse.SERVING

        check_open_call(channel, "/grpc.health.v1.Health/Check", is_served)


def check_open_call(channel: grpc.Channel, method: str, is_served: Callable[[], bool]) -> None:
    """Checks that whoever asks is served, three at a time and each for half a second."""
    assert is_served()
    call = channel.stream_unary(method)
    silent = [call.future(never(), timeout=20) for _ in range(4)]
    codes = Counter(ends_with(each) for each in silent)
    assert codes[grpc.StatusCode.RESOURCE_EXHAUSTED] >= 1
    assert codes[grpc.StatusCode.CANCELLED] >= 1
    assert codes.total() == 4
    assert is_served()
