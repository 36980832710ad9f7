"""Checkpoints in an object store that is slow, hangs, breaks off and refuses.

The store is an S3 server, reached by Beam's own file system through a proxy. A job on it slows
down, or ends with an error that says why. It never loses or doubles anything, and is never over
before its last manifest is there.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from functools import cache, partial
from random import Random

import boto3
import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.utils import retry
from exact_job import TELL, check_exact, exact_plan

from sparkdrain.checkpoints.beam_storage import storage_at
from sparkdrain.checkpoints.manifest import decode
from sparkdrain.checkpoints.storage import AlreadyThere, FileMissing, TimedStorage, read
from sparkdrain.checkpoints.upload import Uploader
from sparkdrain.drain.notification import DrainNotification
from sparkdrain.drain.phases import DrainPhase
from sparkdrain.drain.signal import DrainSignal
from sparkdrain.errors import CheckpointFailed, CheckpointRefused, Fenced
from sparkdrain.rounds.driver.durable import DurableJob
from sparkdrain.rounds.driver.inheritances import DriverState
from sparkdrain.rounds.slots import service
from tests.support.at_once import AtOnce
from tests.support.in_memory_rounds import InMemoryRounds
from tests.support.moody_proxy import Mood
from tests.support.object_store import ObjectStore, s3_server
from tests.support.random_pipelines import results

EVENTS = 3


@pytest.fixture(scope="module")
def server():
    with s3_server() as address:
        yield address


@pytest.fixture
def store(server, monkeypatch):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    # Beam tries again for ten minutes, and makes a client for each call, in a tenth of a second.
    monkeypatch.setattr(retry.Clock, "sleep", lambda self, seconds: None)
    monkeypatch.setattr(boto3.session, "Session", cache(boto3.session.Session))
    session = boto3.session.Session()
    monkeypatch.setattr(session, "client", cache(session.client))
    monkeypatch.setattr(FileSystems, "_pipeline_options", None)
    store = ObjectStore(server)
    FileSystems.set_options(PipelineOptions(store.flags))
    yield store
    store.proxy.close()


def test_files_are_kept_as_on_a_disk(store):
    storage, root = storage_at(store.root), store.root
    assert storage.list(root) == {}
    storage.write(f"{root}/files/a", [b"1" * (6 << 20), b"2"])
    assert read(storage, f"{root}/files/a") == b"1" * (6 << 20) + b"2"
    assert storage.list(f"{root}/files") == {"a": (6 << 20) + 1}
    storage.publish(f"{root}/1/b", b"manifest")
    storage.publish(f"{root}/1/b", b"manifest")
    for name, data in ("b", b"other"), ("c", b"manifest"):
        with pytest.raises(AlreadyThere, match="another driver wrote it"):
            storage.publish(f"{root}/1/{name}", data)
    storage.delete([f"{root}/files/a", f"{root}/files/none"])
    with pytest.raises(FileMissing, match="files/a is missing"):
        read(storage, f"{root}/files/a")


def test_a_job_keeps_to_its_own_options_whatever_pipelines_its_program_makes(store):
    storage = storage_at(store.root, PipelineOptions(store.flags))
    FileSystems.set_options(PipelineOptions([]))
    storage.write(f"{store.root}/a", [b"1"])
    assert storage.list(store.root) == {"a": 1}
    with pytest.raises(CheckpointFailed):
        storage_at(store.root).list(store.root)


# --- what is said -----------------------------------------------------------------------------

CAUSES = {
    Mood.REFUSES: r"\(SlowDown\)|\(503\)",
    Mood.BREAKS: "Connection was closed",
    Mood.MUTE: "Connection was closed",
}


@pytest.mark.parametrize("mood", CAUSES)
def test_a_store_that_fails_is_an_error_that_says_why(store, mood):
    storage, root = storage_at(store.root), store.root
    store.ask = lambda what: mood
    for act in (
        lambda: storage.list(root),
        lambda: storage.write(f"{root}/a", [b"1"]),
        lambda: storage.publish(f"{root}/1/a", b"1"),
        lambda: storage.delete([f"{root}/a"]),
        lambda: read(storage, f"{root}/a"),
    ):
        with pytest.raises(CheckpointFailed, match=rf"^s3://{store.bucket}.*({CAUSES[mood]})"):
            act()


def test_a_call_that_beam_tries_again_for_long_is_given_up_and_says_why(store, monkeypatch):
    end = threading.Event()
    monkeypatch.setattr(retry.Clock, "sleep", lambda self, seconds: end.wait(60))
    store.ask = lambda what: Mood.REFUSES
    storage = TimedStorage(storage_at(store.root), 4)
    for said in "has not answered for 4 s", "does not answer":
        with pytest.raises(CheckpointFailed, match=rf"{said}: it was tried again, .*SlowDown"):
            storage.list(store.root)
    end.set()


def test_a_store_that_hangs_is_given_up(store):
    storage = TimedStorage(storage_at(store.root), 1)
    store.ask = lambda what: Mood.HANGS
    with pytest.raises(CheckpointFailed, match=rf"{store.bucket}.* has not answered for 1 s$"):
        storage.list(store.root)


def test_a_job_whose_store_cannot_be_reached_does_not_begin_and_says_what_to_do(store):
    store.ask = lambda what: Mood.BREAKS
    job = DurableJob.at(store.root, "job", "run", {}, 1, 2)
    with pytest.raises(CheckpointFailed, match=r"was closed.* --s3_endpoint_url") as raised:
        job.check(resume="if-any")
    assert "planted-password" not in str(raised.value)


def test_a_job_whose_bucket_is_not_there_does_not_begin_and_says_so(store):
    """To Beam, it is an empty one. The claim of the job is what cannot be written."""
    job = DurableJob.at("s3://not-there/checkpoints", "job", "run", {}, 1, 2)
    assert job.check(resume=True) is False
    said = r"^s3://not-there/.*NoSuchBucket.*See that the bucket .* of --checkpoint_dir is there"
    with pytest.raises(CheckpointFailed, match=said):
        job.take(resume=True)


def test_a_job_that_has_to_resume_is_refused_if_its_bucket_is_not_there(store):
    job = DurableJob.at("s3://not-there/checkpoints", "job", "run", {}, 1, 2)
    with pytest.raises(CheckpointRefused, match="has no checkpoint, and --resume=required"):
        job.check(resume="required")


def test_an_object_whose_upload_failed_at_its_end_is_not_there_twice_over(store):
    """Python closes a file that was left open, which ends an upload that has failed."""
    storage, root = storage_at(store.root), store.root
    ends = iter([Mood.REFUSES])
    store.ask = lambda what: (
        next(ends, Mood.WELL) if what.startswith("POST") and "uploadId=" in what else Mood.WELL
    )
    with pytest.raises(CheckpointFailed, match="SlowDown"):
        storage.write(f"{root}/a", [b"once"])
    assert storage.list(root) in ({}, {"a": 4})


# --- jobs -------------------------------------------------------------------------------------


class Crash(Exception):
    """The driver and all hosts are gone."""


class Job:
    """A job with many lives. What a dead one has begun may still come about."""

    def __init__(self, store, seed) -> None:
        self.store = store
        self.root = f"{store.root}-{seed}"
        self.rng = Random(seed)
        self.drain_after = self.rng.choice([None, self.rng.randrange(8)])
        self.plan = exact_plan(EVENTS)
        self.effects: Counter = Counter()
        self.ends: Counter = Counter()
        self.said = ""
        TELL[:] = [lambda element: self.effects.update([json.dumps(element)])]

    def live(self, steps=None):
        """What it has made in the end; None if it has not come so far."""
        left = iter(range(steps)) if steps is not None else None

        def fail(header) -> None:
            if left is not None and next(left, None) is None:
                raise Crash

        try:
            options = PipelineOptions(self.store.flags)
            durable = DurableJob.at(self.root, "job", "run", {}, 1, 2, options)
            # As in a host; the driver's process may have made other pipelines since.
            FileSystems.set_options(options)
            rounds = InMemoryRounds(self.plan, 1, durable=durable, fail=fail)
        except (CheckpointFailed, Fenced) as error:
            return self._ended(error)
        self._drain_in_time(rounds)
        try:
            rounds.run_to_end(seconds=600)
            assert self.newest_phase() in {DrainPhase.DRAINED, DrainPhase.DONE}, (
                "it is over before its manifest is there"
            )
            return results(rounds.schedule.reports())
        except (CheckpointFailed, Fenced, Crash) as error:
            return self._ended(error)
        finally:
            rounds.close()

    def _drain_in_time(self, rounds) -> None:
        signal = rounds.loop.drain.signal = DrainSignal()
        rounds.loop.drain.timer_repeats = 10
        tell = rounds.loop.tell

        def drain(schedule, reports) -> None:
            tell(schedule, reports)
            late = self.drain_after is not None and schedule.number >= self.drain_after
            if late and signal.requested() is None:
                signal.request(DrainNotification.create("run", 0))

        rounds.loop.tell = drain

    def newest_phase(self) -> DrainPhase:
        """As the store itself says, whatever is on its way."""
        prefix = self.root.removeprefix(f"s3://{self.store.bucket}/")
        newest = [name for name in self.store.manifests() if name.startswith(f"{prefix}/")][-1]
        return DriverState.of(decode(self.store.content(newest), newest)).phase

    def _ended(self, error) -> None:
        self.ends[type(error).__name__] += 1
        self.said = str(error)


def moody(rng, often):
    moods = [Mood.REFUSES, Mood.BREAKS, Mood.MUTE, Mood.SLOW]
    return lambda what: rng.choice(moods) if rng.random() < often else Mood.WELL


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_job_on_a_moody_store_makes_everything_once(store, monkeypatch):
    monkeypatch.setattr(service, "Uploader", AtOnce)
    store.proxy.seconds = 0.01
    ends: Counter = Counter()
    for seed in range(8):
        job, made = Job(store, seed), None
        for often in (0.03, 0.1, 0.3, 0.03, 0, 0, 0):
            store.ask = moody(job.rng, often)
            made = job.live(job.rng.choice([None, job.rng.randrange(30)]) if often else None)
            if made is not None:
                break
        assert made is not None, job.ends
        check_exact(made, job.effects, whole=job.drain_after is None, events=EVENTS)
        ends.update(job.ends)
    print(dict(ends), store.proxy.heard)
    assert ends["CheckpointFailed"] > 0
    assert all(store.proxy.heard[mood] for mood in CAUSES)


@pytest.mark.slow
def test_a_job_whose_uploads_hang_ends_at_the_limit_and_goes_on_exactly(store, monkeypatch):
    monkeypatch.setattr(service, "Uploader", partial(Uploader, stall_seconds=6.0))
    job = Job(store, 0)
    job.drain_after = None

    def hang(what) -> Mood:
        is_upload = "/files/" in what and what.startswith(("POST", "PUT"))
        return Mood.HANGS if is_upload and store.manifests() else Mood.WELL

    store.ask = hang
    assert job.live() is None
    assert store.proxy.heard[Mood.HANGS]
    assert store.manifests()
    assert "(3rd failure in a row" in job.said
    assert re.search(rf"the storage {job.root} has not moved for \d+ s", job.said)
    assert "--resume" in job.said

    store.ask = lambda what: Mood.WELL
    store.proxy.release()
    made = job.live()
    assert made is not None, job.said
    check_exact(made, job.effects, whole=True, events=EVENTS)
