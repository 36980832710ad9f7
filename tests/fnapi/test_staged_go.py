"""Go's SDK harness is the worker binary that a pipeline stages."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

import pytest
from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.fnapi.errors import HarnessNotStarted
from sparkdrain.fnapi.go import go_command
from sparkdrain.graph.environments import STAGED_GO, chosen, staged_outside
from sparkdrain.graph.staged import GO_WORKER, staged_name
from sparkdrain.hosts.memory_limit import memory_here


def _worker():
    return beam_runner_api_pb2.ArtifactInformation(
        type_urn="beam:artifact:type:file:v1",
        role_urn="beam:artifact:role:go_worker_binary:v1",
    )


def test_the_worker_binary_has_a_name_and_needs_no_container():
    pipeline = beam_runner_api_pb2.Pipeline()
    environment = pipeline.components.environments["go"]
    environment.urn = "beam:env:docker:v1"
    environment.dependencies.append(_worker())
    choice = chosen(environment)
    assert choice is not None
    assert choice.urn == STAGED_GO
    assert staged_name(_worker()) == GO_WORKER
    assert staged_outside(pipeline) == {GO_WORKER}


def test_whole_numbers_among_the_options_are_whole_for_go(tmp_path):
    options = {"parallelism": -1.0, "share": 0.5, "go_options": {"options": {"keys": "10"}}}
    command = go_command(Path(sys.executable), options, "id", "unix:here", tmp_path)
    assert command.words[:3] == [sys.executable, "--worker=true", "--id=id"]
    found = json.loads(Path(command.variables["PIPELINE_OPTIONS_FILE"]).read_text())
    assert found == {
        "beam:option:parallelism:v1": -1,
        "beam:option:share:v1": 0.5,
        "beam:option:go_options:v1": {"options": {"keys": "10"}},
    }
    assert isinstance(found["beam:option:parallelism:v1"], int)
    capabilities = command.variables["RUNNER_CAPABILITIES"].split()
    assert "beam:protocol:monitoring_info_short_ids:v1" in capabilities


def test_the_heap_grows_further_up_to_half_of_the_memory_unless_the_executor_says_more(
    tmp_path, monkeypatch
):
    """Go's own words for it, as its package ``runtime`` has them."""

    def variables():
        found = go_command(Path(sys.executable), {}, "id", "unix:here", tmp_path).variables
        return {name: found[name] for name in ("GOGC", "GOMEMLIMIT") if name in found}

    for name in ("GOGC", "GOMEMLIMIT"):
        monkeypatch.delenv(name, raising=False)
    assert variables() == {"GOGC": "400", "GOMEMLIMIT": str(memory_here() // 2)}
    for name, value in ("GOGC", "50"), ("GOMEMLIMIT", "1GiB"):
        with monkeypatch.context() as patched:
            patched.setenv(name, value)
            assert variables() == {}


@pytest.mark.parametrize(
    ("head", "system"),
    [
        (b"\x7fELF\x02\x02" + bytes(12) + struct.pack(">H", 22), "linux/machine 22"),
        (b"\x7fELF\x02\x01" + bytes(12) + struct.pack("<H", 243), "linux/riscv64"),
        (b"\xcf\xfa\xed\xfe" + struct.pack("<I", 0x01000007), "darwin/amd64"),
        (b"MZ", "windows"),
        (b"#!/bin/sh", "no system that is known here"),
        (b"", "no system that is known here"),
    ],
)
def test_a_binary_for_another_system_is_refused_with_what_to_do(tmp_path, head, system):
    binary = tmp_path / "worker"
    binary.write_bytes(head)
    with pytest.raises(HarnessNotStarted, match=rf"is for {system},.*GOOS=.*--worker_binary"):
        go_command(binary, {}, "id", "unix:here", tmp_path)


def test_a_binary_that_was_staged_without_that_right_can_be_executed(tmp_path):
    binary = tmp_path / "worker"
    binary.write_bytes(Path(sys.executable).read_bytes()[:20])
    binary.chmod(0o640)
    go_command(binary, {}, "id", "unix:here", tmp_path)
    assert binary.stat().st_mode & 0o777 == 0o740
