"""A relay waits for a job, and does what a slot has told it."""

from __future__ import annotations

import json
import os
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest
from apache_beam.portability.api import beam_provision_api_pb2

from sparkdrain.fnapi.class_paths import CLASS_PATHS, FRESH_SECONDS
from sparkdrain.fnapi.errors import HarnessNotStarted
from sparkdrain.fnapi.process import Command, HarnessProgram, Life
from sparkdrain.fnapi.relayed import RelayedHarness, start_spare_relay, use
from sparkdrain.fnapi.services import Admitted, SdkServices
from sparkdrain.fnapi.shared_process import SharedPlace, taken_by
from sparkdrain.fnapi.worker import SdkWorker
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

# Says how it was started, and stays.
HARNESS = """
import json, os, sys, time
told = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)])
open(sys.argv[2] + "/new", "w").write(told)
os.rename(sys.argv[2] + "/new", sys.argv[2] + "/told")
time.sleep(1000)
"""


def is_gone(folder: Path) -> bool:
    return not folder.exists()


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The folder of a server that has had a job with a relay."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv(CLASS_PATHS, str(home))
    use(home)
    return home


@pytest.fixture
def place(tmp_path):
    """Where a relay waits."""
    return tmp_path / "place"


@pytest.fixture
def spare(home, place):
    spare = start_spare_relay(home, place, time.time())
    assert spare is not None
    return spare


@pytest.fixture
def services():
    services = SdkServices()
    yield services
    services.stop()


@pytest.fixture
def harness(tmp_path, place, services):
    """Makes the part of a slot in a harness, and starts it."""
    made = []

    def start(name: str, *, command=None, needs_port=False) -> RelayedHarness:
        def given(harness_id: str, address: str, folder: Path) -> Command:
            words = [sys.executable, "-c", HARNESS, address, str(folder)]
            return Command(words, {"MINE": harness_id})

        program = HarnessProgram(name, command or given, needs_port=needs_port, ends_itself=False)
        shared = SharedPlace(tmp_path / "executor", name)
        worker = SdkWorker(f"{name}-{len(made)}", Life())
        services.admit(Admitted(worker, beam_provision_api_pb2.ProvisionInfo(), {}))
        made.append(RelayedHarness(program, shared, services, place))
        made[-1].start(worker.id)
        return made[-1]

    yield start
    for each in made:
        each.stop(at_once=True)


def folder_of(harness: RelayedHarness) -> Path:
    assert harness._shared is not None
    return harness._shared.folder


def test_a_job_has_the_relay_that_waited_with_the_variables_and_the_folder_of_its_slot(
    spare, harness, monkeypatch, tmp_path
):
    monkeypatch.setenv("OF_THE_SLOT", "1")
    monkeypatch.chdir(tmp_path)
    first = harness("go")
    folder = folder_of(first)
    assert folder == spare._shared.folder
    told = folder / "told"
    wait_until(told.exists)
    words, current, variables = json.loads(told.read_text())
    assert words == [f"unix:{folder}/fnapi", str(folder)]
    assert current == str(tmp_path)
    assert variables["MINE"] == (folder / "harness").read_text()
    expected = {**os.environ, "MINE": variables["MINE"]}
    assert {name: variables.get(name) for name in expected} == expected
    assert not (folder / "order").exists(), "it has the variables of the user"
    second = harness("go")
    assert folder_of(second) == folder
    assert folder_of(harness("another")) != folder, "one job alone has it"
    spare.end_unless_taken()
    assert not first.how_it_ended()


def test_no_relay_waits_longer_than_for_its_job(spare, place):
    spare.end_unless_taken()
    wait_until(partial(is_gone, spare._shared.folder))
    assert taken_by(place / "waiting") is None


def test_a_relay_that_has_died_is_replaced(spare, harness):
    spare.end_unless_taken()
    spare._waiting.write_text(str(spare._shared.folder))
    wait_until(partial(is_gone, spare._shared.folder))
    started = harness("go")
    wait_until((folder_of(started) / "told").exists)


def test_a_relay_waits_only_if_a_job_had_one_within_an_hour(tmp_path, place, home, harness):
    os.utime(home / ".relay", (1000.0, 1000.0))
    assert start_spare_relay(home, place, 1000.0 + FRESH_SECONDS) is None
    harness("go")
    assert (home / ".relay").stat().st_mtime > time.time() - FRESH_SECONDS
    assert start_spare_relay(tmp_path, place, time.time()) is None


def test_a_harness_that_needs_a_port_has_a_relay_of_its_own(spare, harness, place):
    assert folder_of(harness("docker", needs_port=True)) != spare._shared.folder
    taken = taken_by(place / "waiting")
    assert taken is not None
    taken.let_go()
    spare.end_unless_taken()


def test_a_harness_that_cannot_be_started_leaves_no_relay_behind(spare, harness):
    def refused(*_) -> Command:
        message = "for another system"
        raise HarnessNotStarted(message)

    with pytest.raises(HarnessNotStarted):
        harness("go", command=refused)
    spare.end_unless_taken()
    wait_until(partial(is_gone, spare._shared.folder))
