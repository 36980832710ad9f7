"""Slots share the process that a command or an image starts, if its SDK can serve several.

Python's cannot by itself, so it says here that it can: a harness of Python's is in the place of
Java's or Go's. All else is as in production.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import apache_beam as beam
import grpc
import pytest
from apache_beam.portability.api import (
    beam_fn_api_pb2,
    beam_fn_api_pb2_grpc,
    beam_provision_api_pb2,
    beam_runner_api_pb2,
)
from apache_beam.transforms import environments

from sparkdrain.fnapi import guard, launch
from sparkdrain.fnapi.harness_job import HarnessJob
from sparkdrain.fnapi.process import HarnessProcess, Life
from sparkdrain.fnapi.relayed import RelayedHarness
from sparkdrain.fnapi.services import Admitted, SdkServices
from sparkdrain.fnapi.worker import SdkWorker
from sparkdrain.graph.beam import common_urns
from tests.fnapi import test_relayed
from tests.fnapi.test_containers import DOCKER
from tests.fnapi.test_relayed import MULTI_CORE, counting, pid_of
from tests.support.stranger import as_stranger
from tests.support.waiting import wait_until
from tests.test_peers import answer

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKER = f"{sys.executable} -m sparkdrain.cli.main worker"
STAGED = "submission_environment_dependencies.txt"
CAPABILITIES = (*environments.python_sdk_capabilities(), MULTI_CORE)


def by_command() -> environments.Environment:
    return environments.ProcessEnvironment(
        WORKER,
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capabilities=CAPABILITIES,
        artifacts=[_staged()],
    )


def by_image() -> environments.Environment:
    return environments.DockerEnvironment(
        container_image="own-image:1", capabilities=CAPABILITIES, artifacts=[_staged()]
    )


def _staged() -> beam_runner_api_pb2.ArtifactInformation:
    payload = beam_runner_api_pb2.ArtifactStagingToRolePayload(staged_name=STAGED)
    return beam_runner_api_pb2.ArtifactInformation(
        type_urn=common_urns.artifact_types.FILE.urn,
        type_payload=beam_runner_api_pb2.ArtifactFilePayload(path=STAGED).SerializeToString(),
        role_urn=common_urns.artifact_roles.STAGING_TO.urn,
        role_payload=payload.SerializeToString(),
    )


@pytest.fixture
def slot(tmp_path, monkeypatch):
    """Makes slots of one executor, which has a docker that runs all here."""
    made = []
    docker, staged = tmp_path / "docker", tmp_path / STAGED
    docker.write_text(DOCKER)
    docker.chmod(0o700)
    staged.write_text("told to all")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))

    def make(environment: environments.Environment) -> test_relayed.Slot:
        slot = test_relayed.Slot(tmp_path / "executor")
        slot.environment = environment
        slot.job = HarnessJob(
            "job",
            {},
            lambda _: staged,
            log=lambda _, text: slot.logged.append(text),
            executor=tmp_path / "executor",
            slots=2,
        )
        made.append(slot)
        return slot

    yield make
    for each in made:
        each.harnesses.close()


class _TornDown(beam.DoFn):
    """Tells what was staged, and when it is torn down."""

    def __init__(self, notes: Path) -> None:
        self._notes = notes

    def process(self, element):
        staged = Path(os.environ["SEMI_PERSISTENT_DIRECTORY"], "staged", STAGED)
        (self._notes / f"staged-{element}").write_text(staged.read_text())
        yield element

    def teardown(self):
        (self._notes / "torn down").touch()


@pytest.mark.parametrize("kind", [by_command, by_image])
def test_two_slots_share_what_is_started_for_the_first_and_it_ends_in_order_after_the_last(
    slot, tmp_path, kind
):
    first, second = slot(kind()), slot(kind())
    notes = [tmp_path / "a", tmp_path / "b"]
    with ThreadPoolExecutor(2) as pool:
        builds = [counting(file, side) for file, side in zip(notes, "ab", strict=True)]
        list(pool.map(lambda each, build: each.run(build), (first, second), builds))
    assert {line.split()[-1] for file in notes for line in file.read_text().splitlines()} == {
        str(pid_of(first, tmp_path, "one"))
    }
    for file, side in zip(notes, "ab", strict=True):
        assert len(file.read_text().splitlines()) == 50
        assert all(line.split()[2] == side for line in file.read_text().splitlines())
    second.run(lambda p: p | beam.Create(["x"]) | beam.ParDo(_TornDown(tmp_path)))
    assert (tmp_path / "staged-x").read_text() == "told to all"
    folder = first.process
    first.harnesses.close()
    assert not (tmp_path / "torn down").exists()
    assert pid_of(second, tmp_path, "two") == pid_of(second, tmp_path, "three")
    second.harnesses.close()
    wait_until(lambda: not folder.exists())
    assert (tmp_path / "torn down").exists()
    if kind is by_image:
        wait_until(lambda: len((tmp_path / "told").read_text().splitlines()) == 2)
        ran, removed = (tmp_path / "told").read_text().splitlines()
        assert removed == f"rm --force {ran.partition('--name=')[2].split()[0]}"


class _Lasting(beam.DoFn):
    def __init__(self, notes: Path) -> None:
        self._notes = notes

    def process(self, element):
        yield element

    def teardown(self):
        threading.Event().wait(guard._PATIENCE_SECONDS + 1)
        (self._notes / "torn down").touch()


def test_a_process_has_time_to_tear_down_when_its_last_slot_is_gone(slot, tmp_path):
    only = slot(by_command())
    only.run(lambda p: p | beam.Create(["x"]) | beam.ParDo(_Lasting(tmp_path)))
    only.harnesses.close()
    wait_until((tmp_path / "torn down").exists)


def test_a_slot_that_leaves_ends_its_stream_of_elements_and_breaks_nothing(monkeypatch):
    """An SDK that loses a connection complains, in the log of a slot that stays."""
    services, worker = SdkServices(), SdkWorker("one", Life())
    worker.life.is_shared = True
    to_process, ended = worker.to_process, threading.Event()

    def slowly(stream: str) -> Iterator[beam_fn_api_pb2.Elements]:
        yield from to_process(stream)
        time.sleep(0.2)  # the machine is busy

    monkeypatch.setattr(worker, "to_process", slowly)
    try:
        services.admit(Admitted(worker, beam_provision_api_pb2.ProvisionInfo(), {}))
        worker.send(beam_fn_api_pb2.Elements())
        with grpc.insecure_channel(services.socket) as channel:
            stub = beam_fn_api_pb2_grpc.BeamFnDataStub(channel)
            call = stub.Data(iter(ended.wait, True), metadata=(("worker_id", "one"),))
            next(call)
            worker.close()
            assert list(call) == []
            ended.set()
    finally:
        services.stop()


@pytest.mark.parametrize("kind", [by_command, by_image])
@pytest.mark.parametrize(
    ("capabilities", "slots", "is_shared"),
    [(CAPABILITIES, 2, True), (CAPABILITIES, 1, False), (CAPABILITIES[:-1], 2, False)],
)
def test_only_what_can_serve_several_slots_is_shared(
    tmp_path, kind, capabilities, slots, is_shared
):
    proto = kind().to_runner_api(None)
    proto.capabilities[:] = capabilities
    services = SdkServices()
    try:
        job = HarnessJob("job", {}, executor=tmp_path / "executor", slots=slots)
        life = launch.life_of(proto, services, tmp_path, job, {})
        assert isinstance(life, RelayedHarness if is_shared else HarnessProcess)
    finally:
        services.stop()


@pytest.mark.parametrize("is_shared", [False, True])
def test_javas_harness_gets_a_port(tmp_path, is_shared):
    """It reaches no socket."""
    capabilities = ["beam:version:sdk_base:apache/beam_java17_sdk:2.73.0", MULTI_CORE]
    proto = environments.ProcessEnvironment("boot", capabilities=capabilities).to_runner_api(None)
    assert _endpoint(proto, tmp_path, is_shared=is_shared).startswith("127.0.0.1:")


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_container_gets_a_port(tmp_path, is_shared):
    proto = by_image().to_runner_api(None)
    assert _endpoint(proto, tmp_path, is_shared=is_shared).startswith("127.0.0.1:")


def _endpoint(proto: beam_runner_api_pb2.Environment, tmp_path: Path, *, is_shared: bool) -> str:
    """Where a harness finds elements."""
    services = SdkServices()
    try:
        job = HarnessJob("job", {}, executor=tmp_path / "executor", slots=1 + is_shared)
        return launch.life_of(proto, services, tmp_path, job, {}).endpoint
    finally:
        services.stop()


@pytest.fixture
def relay_at_a_port(tmp_path):
    """The address of a relay, whose harness has the id ``id``, and writes down what it is told."""
    told = tmp_path / "address"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "slots"))
    listener.listen()
    script = f"echo $0 > {told}.new; mv {told}.new {told}; exec sleep 1000"
    program = [sys.executable, "-c", "from sparkdrain.fnapi.relay import main; main()"]
    command = ["sh", "-c", script, "--control_endpoint=127.0.0.1:0"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    arguments = [*program, "id", "127.0.0.1:0", "0", *command]
    with subprocess.Popen(arguments, stdin=listener, env=env) as process:
        wait_until(told.exists)
        yield told.read_text().strip().partition("=")[2]
        process.terminate()


METHODS = (
    "/org.apache.beam.model.fn_execution.v1.BeamFnControl/GetProcessBundleDescriptor",
    "/org.apache.beam.model.fn_execution.v1.ProvisionService/GetProvisionInfo",
    "/org.apache.beam.model.job_management.v1.ArtifactRetrievalService/GetArtifact",
)


@as_stranger
@pytest.mark.parametrize("method", METHODS)
def test_another_user_of_this_machine_is_refused_though_it_has_read_the_id(relay_at_a_port, method):
    said = answer(65534, relay_at_a_port, method, "worker_id=id")
    assert said.startswith("PERMISSION_DENIED The user 65534 of this machine has connected")


@pytest.mark.parametrize("method", METHODS)
def test_who_does_not_say_the_id_is_refused(relay_at_a_port, method):
    said = answer(0, relay_at_a_port, method, "worker_id=guess")
    assert said == "PERMISSION_DENIED no harness has this worker id"


# Frames of HTTP/2 (RFC 9113): length, type, flags, stream, and what is in them.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
PING = b"\0\0\x08\6\0\0\0\0\0" + bytes(8)
PING_KIND, GOAWAY_KIND = 6, 7


@pytest.fixture
def services_of_a_slot():
    """The address of services that know the harness ``id``."""
    services = SdkServices()
    services.admit(Admitted(SdkWorker("id", Life()), beam_provision_api_pb2.ProvisionInfo(), {}))
    yield services.socket
    services.stop()


@pytest.mark.parametrize("whose", ["relay_at_a_port", "services_of_a_slot"])
def test_a_harness_that_has_nothing_to_do_may_ask_for_a_long_time_whether_it_is_heard(
    request, whose
):
    """Java and Python do so each 20 s. By default, gRPC hangs up on them soon."""
    address = request.getfixturevalue(whose)
    host, _, port = address.rpartition(":")
    if host == "unix":
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(port)
    else:
        connection = socket.create_connection((host, int(port)))
    with connection, connection.makefile("rb") as heard:
        connection.sendall(PREFACE)
        for _ in range(10):
            connection.sendall(PING)
            kind = None
            while kind != PING_KIND:
                head = heard.read(9)
                kind = head[3]
                heard.read(int.from_bytes(head[:3], "big"))
                assert kind != GOAWAY_KIND


def test_a_descriptor_that_no_slot_has_is_not_found(relay_at_a_port):
    with grpc.insecure_channel(relay_at_a_port) as channel:
        ask = channel.unary_unary(METHODS[0])
        request = beam_fn_api_pb2.GetProcessBundleDescriptorRequest(
            process_bundle_descriptor_id="none"
        )
        with pytest.raises(grpc.RpcError) as refused:
            ask(request.SerializeToString(), metadata=(("worker_id", "id"),))
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
