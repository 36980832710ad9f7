"""A job is DRAINED, and its request gone, only when both of its last checkpoints are there.

The job is a real one, with its store of requests, and checkpoints are published as in production:
in the background, from state that slots upload in the background.
"""

from __future__ import annotations

import threading
import time

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from sparkdrain import SparkDrainRunner
from sparkdrain.checkpoints.manifest import decode
from sparkdrain.checkpoints.publish import newest
from sparkdrain.coordination.address import parse
from sparkdrain.coordination.stores import STORES
from sparkdrain.drain import records
from sparkdrain.drain.phases import DrainPhase
from sparkdrain.errors import CheckpointFailed, NotAcknowledged
from sparkdrain.rounds.driver.durable import DurableJob
from sparkdrain.rounds.driver.inheritances import DriverState
from sparkdrain.rounds.slots import service
from tests.support.endless import numbers
from tests.support.random_pipelines import Named
from tests.support.rounds_engine import RoundsEngine

SECONDS = 60
# Long enough for hundreds of looks whether the checkpoint is published.
A_WHILE = 1.0

FAIL = "the storage is full"


class Gate:
    """Lets no file through once it is shut; ``reached`` tells that one came."""

    def __init__(self) -> None:
        self.shut = threading.Event()
        self.reached = threading.Event()
        self.open = threading.Event()
        self.error: Exception | None = None

    def pass_(self) -> None:
        self.reached.set()
        assert self.open.wait(SECONDS)
        if self.error is not None:
            raise self.error


class Gated:
    """A storage with a gate before the manifests of one phase, or before all files of state."""

    def __init__(self, storage, gate, phase=None) -> None:
        self._storage, self._gate, self._phase = storage, gate, phase

    def publish(self, path, data) -> None:
        if self._phase is not None and phase_of(data, path) is self._phase:
            self._gate.pass_()
        self._storage.publish(path, data)

    def write(self, path, chunks) -> None:
        if self._phase is None and self._gate.shut.is_set():
            self._gate.pass_()
        self._storage.write(path, chunks)

    def __getattr__(self, name):
        return getattr(self._storage, name)


def phase_of(data, path) -> DrainPhase | None:
    # Claims are published too; they are no manifests.
    return DriverState.of(decode(data, path)).phase if path.endswith(".manifest") else None


GATE = Gate()


class ShutsTheGate(beam.DoFn):
    """Its hook comes when all else is done, so what is uploaded later is the last of it."""

    def process(self, element):
        yield element

    def on_drain(self):
        GATE.shut.set()


class Drained:
    """A job that is drained while its storage is kept from taking the last of it."""

    def __init__(self, tmp_path, in_process, monkeypatch, last) -> None:
        GATE.__init__()
        self.gate = GATE
        known = DurableJob.at(str(tmp_path / "checkpoints"), "job", "mine", {}, 2, 2)
        storage = known.storage
        if last == "state":
            storage_at = service.storage_at
            monkeypatch.setattr(service, "storage_at", lambda root: Gated(storage_at(root), GATE))
        else:
            storage = Gated(storage, GATE, last)
        self.durable = DurableJob(storage, known.paths, "mine", {}, 2, 2)
        in_process(RoundsEngine(durable=self.durable, elements=20))
        address = f"file:{tmp_path}/metadata"
        self.store = STORES.open(parse(address))
        options = ["--streaming", f"--metadata_store={address}", "--run_id=mine", "--progress=off"]
        options.append("--allow_unsafe_triggers")
        pipeline = beam.Pipeline(SparkDrainRunner(), options=PipelineOptions(options))
        read = pipeline | Named(numbers("a"))
        _ = read | beam.CombinePerKey(sum) | beam.ParDo(ShutsTheGate())
        self.result = pipeline.run()
        self.result.drain()

    def requests(self) -> list[str]:
        return [each.run_id for each in records.read(self.store, pytest.fail)]

    def newest_phase(self) -> DrainPhase | None:
        found = newest(self.durable.storage, self.durable.paths)
        return None if found is None else DriverState.of(found).phase

    def assert_it_drains_on_while_the_gate_is_shut(self) -> None:
        assert self.gate.reached.wait(SECONDS)
        end = time.monotonic() + A_WHILE
        while time.monotonic() < end:
            assert self.result.state == "DRAINING"
            assert self.requests() == ["mine"]
            assert self.newest_phase() is not DrainPhase.DRAINED
            time.sleep(0.01)


LAST = [
    pytest.param("state", id="the state of a slot"),
    pytest.param(DrainPhase.PUBLISHING, id="the last manifest but one"),
    pytest.param(DrainPhase.DRAINED, id="the last manifest"),
]


@pytest.mark.parametrize("last", LAST)
def test_while_an_upload_hangs_the_job_drains_and_its_request_stays(
    last, tmp_path, in_process, monkeypatch
):
    job = Drained(tmp_path, in_process, monkeypatch, last)
    try:
        job.assert_it_drains_on_while_the_gate_is_shut()
    finally:
        job.gate.open.set()
    assert job.result.wait_until_finish() == "DRAINED"
    assert job.newest_phase() is DrainPhase.DRAINED
    assert job.requests() == []


@pytest.mark.parametrize("last", LAST)
def test_if_an_upload_fails_again_and_again_the_job_fails_and_its_request_stays(
    last, tmp_path, in_process, monkeypatch
):
    job = Drained(tmp_path, in_process, monkeypatch, last)
    job.gate.error = CheckpointFailed(FAIL)
    job.gate.open.set()
    with pytest.raises((CheckpointFailed, NotAcknowledged), match=FAIL):
        job.result.wait_until_finish()
    assert job.result.state == "FAILED"
    assert job.newest_phase() is not DrainPhase.DRAINED
    assert job.requests() == ["mine"]
