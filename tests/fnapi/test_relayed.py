"""Slots share one SDK harness by a relay of their instructions, and need nothing of each other.

The harness is Python's of Beam, which has bundles of several slots in threads; it is the process
that Go's worker binary is in production.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import apache_beam as beam
import grpc
import pytest
from apache_beam.coders import StrUtf8Coder
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc, beam_runner_api_pb2
from apache_beam.transforms import environments, userstate
from typing_extensions import override

from sparkdrain.fnapi import harnesses as harnesses_module
from sparkdrain.fnapi import launch, relay
from sparkdrain.fnapi.aside import EMBEDDING
from sparkdrain.fnapi.errors import HarnessLost, HarnessNotStarted
from sparkdrain.fnapi.harness import Outside
from sparkdrain.fnapi.harness_job import HarnessJob
from sparkdrain.fnapi.harnesses import Harnesses
from sparkdrain.fnapi.process import Command, HarnessProcess, HarnessProgram, Life
from sparkdrain.fnapi.relayed import RelayedHarness
from sparkdrain.fnapi.shared_process import SharedPlace
from sparkdrain.fnapi.sight import stack_in
from sparkdrain.graph.beam import common_urns
from sparkdrain.graph.environments import OUTSIDE, STAGED_GO, is_for_several_slots
from sparkdrain.graph.staged import GO_WORKER
from sparkdrain.graph.translate import translate
from sparkdrain.v1 import relay_pb2
from tests.support import scripted_harness
from tests.support.in_memory import DEFAULTS, InMemoryRun
from tests.support.scripted_harness import ends_of
from tests.support.waiting import wait_until

SDK = [sys.executable, "-m", "apache_beam.runners.worker.sdk_worker_main"]
BUILDING = threading.Lock()
"""Beam builds one pipeline at a time."""
MULTI_CORE = common_urns.protocols.MULTI_CORE_BUNDLE_PROCESSING.urn


def command(harness_id: str, address: str, folder: Path):
    here = f'url: "{address}"'
    kinds = ("CONTROL", "LOGGING", "STATUS")
    variables = {
        **{f"{kind}_API_SERVICE_DESCRIPTOR": here for kind in kinds},
        "WORKER_ID": harness_id,
        "PIPELINE_OPTIONS": "{}",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "FOLDER": str(folder),
    }
    return Command(SDK, variables)


PROGRAM = HarnessProgram("Beam's harness", command, ends_itself=False)


@pytest.fixture(autouse=True)
def relays(monkeypatch):
    """Have each slot's harness be its part in a process that slots share."""

    def life_of(_environment, services, _folder, job, _files):
        place = SharedPlace(job.executor, "key")
        return RelayedHarness(PROGRAM, place, services)

    monkeypatch.setattr(harnesses_module, "life_of", life_of)


class _Kept(Harnesses):
    """Harnesses that levels to come may need."""

    @override
    def give_back(self, worker, *, keep=True):
        super().give_back(worker)


class Slot:
    """One slot of the job, with services of its own."""

    def __init__(self, executor: Path) -> None:
        self.harnesses = _Kept()
        self.logged: list[str] = []
        self.job = HarnessJob(
            "job", {}, log=lambda _, text: self.logged.append(text), executor=executor, slots=2
        )
        self.environment = environments.ProcessEnvironment(
            "", capabilities=[*environments.python_sdk_capabilities(), MULTI_CORE]
        )

    def run(self, build):
        with BUILDING:
            pipeline = beam.Pipeline()
            build(pipeline)
            plan = translate(pipeline.to_runner_api(default_environment=self.environment))
        run = InMemoryRun(plan, 1, DEFAULTS, Outside(self.job, self.harnesses))
        try:
            return run.run()
        finally:
            shutil.rmtree(run.directory)

    @property
    def worker(self):
        (kept,) = self.harnesses._kept.values()
        return kept.worker

    @property
    def process(self) -> Path:
        (kept,) = self.harnesses._kept.values()
        return kept.worker.life._shared.folder


@pytest.fixture
def slot(tmp_path):
    """Makes slots of one executor."""
    made = []

    def make() -> Slot:
        made.append(Slot(tmp_path / "executor"))
        return made[-1]

    yield make
    for each in made:
        each.harnesses.close()


def harness_in(executor: Path) -> int:
    """The one harness whose slots look in a folder."""
    folder = next(filter(None, (told.read_text() for told in executor.glob("*"))))
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            variables = file.read_text(errors="replace").split("\0")
            words = file.with_name("cmdline").read_text(errors="replace").split("\0")
            if f"FOLDER={folder}" in variables and words[: len(SDK)] == SDK:
                found.append(int(file.parent.name))
    (pid,) = found
    return pid


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class _Pid(beam.DoFn):
    def __init__(self, notes: Path) -> None:
        self._notes = notes

    def process(self, element):
        (self._notes / f"{os.getpid()}-{element}").touch()
        yield element


def pid_of(slot: Slot, notes: Path, mark: str) -> int:
    """The process that runs a job of a slot."""
    slot.run(lambda p: p | beam.Create([mark]) | beam.ParDo(_Pid(notes)))
    (found,) = notes.glob(f"*-{mark}")
    return int(found.name.partition("-")[0])


class _Counting(beam.DoFn):
    """Keeps values, and tells them by a timer."""

    ALL = userstate.BagStateSpec("all", StrUtf8Coder())
    END = userstate.TimerSpec("end", beam.TimeDomain.WATERMARK)

    def process(self, pair, every=beam.DoFn.StateParam(ALL), end=beam.DoFn.TimerParam(END)):
        every.add(pair[1])
        end.set(1)

    @userstate.on_timer(END)
    def tell(self, key=beam.DoFn.KeyParam, every=beam.DoFn.StateParam(ALL)):
        kept = list(every.read())
        yield key, len(kept), "".join(sorted(set(kept)))


class _Note(beam.DoFn):
    def __init__(self, notes: Path) -> None:
        self._notes = notes

    def process(self, element):
        logging.getLogger("mine").info("noted %s", element)
        with self._notes.open("a") as file:
            print(*element, os.getpid(), file=file)


def counting(notes: Path, side: str, keys: int = 50):
    def build(pipeline):
        seen = pipeline | "side" >> beam.Create([side])
        _ = (
            pipeline
            | beam.Create([f"{side}{n % keys}" for n in range(4 * keys)])
            | beam.Map(lambda key, said: (key, said), beam.pvalue.AsSingleton(seen))
            | beam.ParDo(_Counting())
            | beam.ParDo(_Note(notes))
        )

    return build


def test_two_slots_have_bundles_in_one_process_at_a_time_and_none_is_mixed_up(slot, tmp_path):
    """State, timers, side inputs and logs are those of each slot."""
    slots = [slot(), slot()]
    notes = [tmp_path / "a", tmp_path / "b"]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(3):
            builds = [counting(file, side) for file, side in zip(notes, "ab", strict=True)]
            list(pool.map(lambda s, build: s.run(build), slots, builds))
    pids = set()
    for file, side, own in zip(notes, "ab", slots, strict=True):
        lines = [line.split() for line in file.read_text().splitlines()]
        assert sorted(line[:3] for line in lines) == sorted(
            [f"{side}{n}", "4", side] for n in range(50) for _ in range(3)
        )
        pids |= {line[3] for line in lines}
        said = [text for text in own.logged if "noted" in text]
        assert len(said) == 150
        assert all(f"noted ('{side}" in text for text in said)
    assert len(pids) == 1
    assert pids == {str(harness_in(tmp_path / "executor"))}


def test_a_slot_leaves_and_the_process_ends_with_the_last_one(slot, tmp_path):
    first, second = slot(), slot()
    pid = pid_of(first, tmp_path, "one")
    assert pid_of(second, tmp_path, "two") == pid
    folder = second.process
    begun = time.monotonic()
    first.harnesses.close()
    assert time.monotonic() - begun < 2, "it has nothing to wait for"
    assert pid_of(second, tmp_path, "three") == pid
    assert pid_of(slot(), tmp_path, "four") == pid
    second.harnesses.close()
    assert folder.exists()


def test_what_a_process_logs_beside_bundles_is_logged_by_a_slot(slot, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    pid_of(slot(), tmp_path, "one")
    wait_until(lambda: "Logging handler created." in caplog.text)


def test_nothing_is_left_of_a_process_that_no_slot_uses(slot, tmp_path):
    only = slot()
    pid, folder = pid_of(only, tmp_path, "one"), only.process
    each_of_them = pid, _parent(pid)
    # Else the first process may reap what nobody has waited for.
    adopt = partial(ctypes.CDLL(None).prctl, 36)
    adopt(1)
    try:
        only.harnesses.close()
        wait_until(lambda: not folder.exists())
        for each in each_of_them:
            wait_until(lambda each=each: not Path(f"/proc/{each}").exists())
    finally:
        adopt(0)


def test_folders_may_have_spaces_in_their_names(slot, tmp_path, monkeypatch):
    place = Path(tempfile.mkdtemp(prefix="a b "))
    try:
        monkeypatch.setattr(tempfile, "tempdir", str(place))
        only = slot()
        pid_of(only, tmp_path, "one")
        assert place in only.process.parents
        only.harnesses.close()
    finally:
        shutil.rmtree(place)


def test_a_process_that_ends_before_it_connects_is_told_of(slot, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "SDK", ["sh", "-c", "echo in vain; exit 3"])
    with pytest.raises(HarnessNotStarted, match=r"status 3\. The last that it wrote:\nin vain"):
        slot().run(lambda p: p | beam.Create([1]) | beam.Map(print))


def test_a_process_that_is_killed_is_lost_to_all_slots_and_the_next_one_is_shared_again(
    slot, tmp_path
):
    first, second = slot(), slot()
    pid = pid_of(first, tmp_path, "one")
    assert pid_of(second, tmp_path, "two") == pid
    workers = first.worker, second.worker
    os.kill(pid, signal.SIGKILL)
    for worker in workers:
        told = wait_until(worker.life.how_it_ended)
        assert "'Beam's harness' ended with the signal SIGKILL" in told.replace('"', "'")
        wait_until(lambda worker=worker: worker.is_lost)
    other = pid_of(first, tmp_path, "three")
    assert other != pid
    assert pid_of(second, tmp_path, "four") == other


class _Hang(beam.DoFn):
    def __init__(self, file: Path) -> None:
        self._file = file

    def process(self, _element):
        self._file.touch()
        while self._file.exists():
            time.sleep(0.01)


def test_a_bundle_that_runs_on_after_its_slot_ends_the_process_and_the_next_is_another(
    slot, tmp_path
):
    first, second, hung = slot(), slot(), tmp_path / "hung"
    pid = pid_of(second, tmp_path, "one")
    worker = second.worker
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(first.run, lambda p: p | beam.Create([1]) | beam.ParDo(_Hang(hung)))
        wait_until(hung.exists)
        first.worker.is_lost = True  # the slot gives the bundle up
        with pytest.raises(HarnessLost):
            hanging.result()
        assert hung.exists()
        told = wait_until(worker.life.how_it_ended)
    assert "A bundle runs on after its slot is gone." in told
    assert pid_of(second, tmp_path, "two") != pid
    assert pid_of(first, tmp_path, "three") == pid_of(second, tmp_path, "four")


class _Brief(beam.DoFn):
    def __init__(self, file: Path) -> None:
        self._file = file

    def process(self, _element):
        self._file.touch()
        time.sleep(1.5)


def test_a_slot_that_gives_a_bundle_up_has_the_next_in_the_same_process(slot, tmp_path):
    """The bundle ends since its connections do; none of them is left."""
    first, second, asks = slot(), slot(), tmp_path / "asks"
    pid = pid_of(second, tmp_path, "one")
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(first.run, lambda p: p | beam.Create([1]) | beam.ParDo(_Brief(asks)))
        wait_until(asks.exists)
        lost = first.worker
        lost.is_lost = True
        with pytest.raises(HarnessLost):
            asking.result()
    assert pid_of(first, tmp_path, "two") == pid
    assert first.worker is not lost
    assert pid_of(second, tmp_path, "three") == pid


SLOT = """
import sys
from pathlib import Path
from tests.fnapi import test_relayed as own
import apache_beam as beam
own.harnesses_module.life_of = lambda _e, services, _f, job, _s: own.RelayedHarness(
    own.PROGRAM, own.SharedPlace(job.executor, "key"), services)
slot = own.Slot(Path(sys.argv[1]))
folder = Path(sys.argv[2])
print(own.pid_of(slot, folder, sys.argv[3]), flush=True)
slot.run(lambda p: p | beam.Create([1]) | beam.ParDo(own._Brief(folder / "amid")))
"""


def test_a_slot_that_has_started_the_process_is_killed_amid_a_bundle_and_the_other_goes_on(
    slot, tmp_path
):
    program = [sys.executable, "-c", SLOT, str(tmp_path / "executor"), str(tmp_path), "one"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=env) as first:
        pid = int(first.stdout.readline())
        second = slot()
        assert pid_of(second, tmp_path, "two") == pid
        wait_until((tmp_path / "amid").exists)
        first.kill()
    time.sleep(2)
    assert pid_of(second, tmp_path, "three") == pid
    assert pid_of(slot(), tmp_path, "four") == pid


def test_each_slot_asks_how_the_process_is_and_gets_an_answer_of_its_own(slot, tmp_path):
    first, second = slot(), slot()
    pid_of(first, tmp_path, "one")
    pid_of(second, tmp_path, "two")
    with ThreadPoolExecutor(2) as pool:
        told = list(pool.map(lambda s: s.worker.status(20.0), (first, second)))
    assert all("ACTIVE PROCESSING BUNDLES" in each.upper() for each in told)
    assert first.worker.status(20.0)


def answered_calls() -> int:
    """How many calls for state have a thread of this process."""
    stacks = (traceback.extract_stack(frame) for frame in sys._current_frames().values())
    return sum(any(call.name == "state_answers" for call in stack) for stack in stacks)


def test_no_call_for_state_outlives_the_part_of_a_slot(slot, tmp_path):
    first, second = slot(), slot()
    pid = pid_of(second, tmp_path, "one")

    def of_second() -> int:
        return len(second.harnesses._kept)  # until it has been idle for a while

    for _ in range(3):
        first.run(counting(tmp_path / "notes", "a", keys=3))
        wait_until(lambda: answered_calls() == 1 + of_second())
        first.worker.is_lost = True
    assert pid_of(first, tmp_path, "two") == pid
    first.harnesses.close()
    wait_until(lambda: answered_calls() == of_second())


def test_who_does_not_know_the_id_of_the_harness_gets_no_instructions(slot, tmp_path):
    only = slot()
    pid_of(only, tmp_path, "one")
    with grpc.insecure_channel(f"unix:{only.process}/fnapi") as channel:
        stub = beam_fn_api_pb2_grpc.BeamFnControlStub(channel)
        never = threading.Event()
        for metadata in ((), (("worker_id", "guess"),)):
            answers = stub.Control(iter(never.wait, True), metadata=metadata)
            with pytest.raises(grpc.RpcError) as refused:
                next(answers)
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
            with pytest.raises(grpc.RpcError) as refused:
                request = beam_fn_api_pb2.GetProcessBundleDescriptorRequest()
                stub.GetProcessBundleDescriptor(request, metadata=metadata)
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        never.set()


@pytest.mark.parametrize(
    ("capabilities", "terms", "is_shared"),
    [
        ([MULTI_CORE], {}, True),
        ([MULTI_CORE], {"slots": 1}, False),
        ([MULTI_CORE], {"executor": None}, False),
        ([MULTI_CORE], {"samples": object()}, False),
        ([MULTI_CORE], {"options": {"sdk_worker_parallelism": 0}}, False),
        ([], {}, False),
    ],
)
def test_slots_share_gos_process_if_it_can_serve_several_and_keeps_nothing_of_them_together(
    tmp_path, capabilities, terms, is_shared
):
    environment = beam_runner_api_pb2.Environment(urn=STAGED_GO, capabilities=capabilities)
    services = harnesses_module.SdkServices()
    try:
        job = HarnessJob(
            "job", **{"options": {}, "executor": tmp_path / "executor", "slots": 2, **terms}
        )
        files = {GO_WORKER: tmp_path / "worker"}
        life = launch.life_of(environment, services, tmp_path, job, files)
        assert isinstance(life, RelayedHarness if is_shared else HarnessProcess)
        assert life.is_shared is is_shared
    finally:
        services.stop()


ONE = "1 @ 0x1\n#\t0x2\tmain.(*a).Process+0x1\t/a.go:7\n#\t0x3\texec.(*Plan).Execute+0x1\t/p.go:1\n"
OTHER = ONE.replace("a.go:7", "b.go:8")


@pytest.mark.parametrize(
    ("status", "shown"), [(ONE, "/a.go"), (f"{ONE}\n{OTHER}", ""), ("2" + ONE[1:], "/a.go")]
)
def test_no_stack_is_shown_that_may_be_another_slots(status, shown):
    found = stack_in(f"\n{status}", is_shared=True)
    assert [file for file, _, _ in found[:1]] == ([shown] if shown else [])


OF_HARNESS = "/beam/sdks/v2/go/pkg/beam/core/runtime/harness/statemgr.go:587"


@pytest.mark.parametrize("is_leaving", [False, True])
@pytest.mark.parametrize("location", [OF_HARNESS, "/home/me/main.go:7"])
def test_complaints_of_the_connections_of_a_slot_that_leaves_are_not_told(location, is_leaving):
    part = relay._Part("id", "name", channel=None, is_leaving=is_leaving)
    entry = relay_pb2.LoggedEntry(log_location=location)
    assert part.takes(entry) is (not is_leaving or location != OF_HARNESS)


@pytest.mark.parametrize(("is_shared", "sdk"), [(False, "go"), (True, "java"), (True, "go")])
def test_a_process_of_gos_which_knows_one_token_for_each_side_input_gets_none(
    monkeypatch, is_shared, sdk
):
    """It would be the token of the slot that was last to tell it. Java gets them with a bundle."""

    def build(pipeline):
        side = beam.pvalue.AsSingleton(pipeline | "side" >> beam.Create([1]))
        _ = pipeline | beam.Create([1]) | "Use" >> beam.Map(lambda a, b: a + b, side)

    monkeypatch.setattr(Life, "is_shared", is_shared)
    scripted = scripted_harness.run_scripted(
        build,
        lambda descriptor, _: ends_of(descriptor),
        capabilities=(EMBEDDING, f"beam:version:sdk_base:{sdk}:2.73.0"),
    )
    tokens = [token for bundle in scripted.bundles for token in bundle.cache_tokens]
    is_told = any(token.HasField("side_input") for token in tokens)
    assert is_told is not (is_shared and sdk == "go")


@pytest.mark.parametrize("finalizes", [False, True])
def test_a_process_of_gos_that_finalizes_bundles_serves_one_slot(finalizes):
    """Its harness changes a map without the lock that it has where another bundle ends."""
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Create([1]) | "Do" >> beam.ParDo(_Hang(Path()))
    go = environments.ProcessEnvironment(
        "worker", capabilities=["beam:version:sdk_base:go:2.77.0", MULTI_CORE]
    )
    proto = pipeline.to_runner_api(default_environment=go)
    for transform in proto.components.transforms.values():
        if transform.spec.urn == common_urns.primitives.PAR_DO.urn:
            pardo = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
            pardo.requests_finalization = finalizes
            transform.spec.payload = pardo.SerializeToString()
    components = beam_runner_api_pb2.Components.FromString(translate(proto).components)
    (planned,) = (e for e in components.environments.values() if e.urn in OUTSIDE)
    assert is_for_several_slots(planned) is not finalizes
