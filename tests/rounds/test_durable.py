"""A driver that has lost its job says so, whatever it finds in storage."""

from __future__ import annotations

import json
import shutil
import threading
from dataclasses import replace

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from sparkdrain.checkpoints.manifest import Manifest
from sparkdrain.checkpoints.paths import Stamp, file_name
from sparkdrain.checkpoints.publish import publish
from sparkdrain.checkpoints.storage import FileMissing
from sparkdrain.coordination.backends.memory import MemoryMetadataStore
from sparkdrain.drain import runs
from sparkdrain.drain.notification import DrainNotification
from sparkdrain.drain.phases import DrainPhase
from sparkdrain.errors import CheckpointDamaged, CheckpointFailed, CheckpointRefused, Fenced
from sparkdrain.graph.identity import identity, without_classes
from sparkdrain.rounds.driver.checkpoint_flight import Cut
from sparkdrain.rounds.driver.durable import DurableJob
from sparkdrain.rounds.driver.inheritances import DriverState
from sparkdrain.stages.telling.failure import Failure
from sparkdrain.stages.telling.spark_error import of_failure
from tests.support.in_memory_rounds import InMemoryRounds, plan_of


def job(folder, held=0):
    return DurableJob.at(str(folder), "job", "run", {}, 2, 3, held=held)


def find_damage():
    message = "a file is missing"
    raise CheckpointDamaged(message)


def test_a_driver_whose_checkpoint_goes_while_it_takes_it_up_was_replaced(tmp_path, monkeypatch):
    first, second, third = (job(tmp_path) for _ in range(3))
    first.take(resume=True)
    publish(first._lease, of_driver(WRITTEN_STATE))
    settle = second.storage.settle

    def late(path):
        third.take(resume=True)
        third.storage.delete([path])
        settle(path)

    monkeypatch.setattr(second.storage, "settle", late)
    with pytest.raises(Fenced, match="taken over by another driver"):
        second.take(resume=True)


def test_what_is_missing_for_a_driver_that_was_replaced_is_no_damage(tmp_path):
    paused, other = job(tmp_path), job(tmp_path)
    paused.take(resume=True)
    other.take(resume=True)
    with pytest.raises(Fenced, match="taken over by another driver"), paused.ours():
        find_damage()


def test_damage_is_told_by_whoever_has_the_job(tmp_path):
    mine = job(tmp_path)
    with pytest.raises(CheckpointDamaged), mine.ours():
        find_damage()
    mine.take(resume=True)
    with pytest.raises(CheckpointDamaged), mine.ours():
        find_damage()


@pytest.mark.parametrize("kind", [CheckpointFailed, CheckpointRefused, FileMissing])
def test_the_driver_knows_what_a_slot_could_not_restore(kind):
    message = f"sparkdrain.errors.{kind.__name__}: what is wrong"
    told = of_failure(Failure(kind.__name__, message, "", False, 1, 2, "host"))
    assert (type(told), str(told)) == (kind, "what is wrong")


def test_a_checkpoint_that_the_job_waits_for_is_published_before_the_next_round(tmp_path):
    mine = job(tmp_path)
    mine.take(resume=True)
    publish_now = mine.storage.publish

    def publish_soon(path, data):
        threading.Event().wait(0.02)
        publish_now(path, data)

    mine.storage.publish = publish_soon
    mine.publish(Cut(1, 1, 0, DrainPhase.READING, None, {}, {}, is_awaited=True))
    assert mine.is_published()
    mine.settle()


# --- what a driver wrote ------------------------------------------------------------------------


def of_driver(state):
    return Manifest("job", "run", 1, 4, 20, 0, {}, 2, (), state)


@pytest.mark.parametrize("phase", DrainPhase)
@pytest.mark.parametrize("drain", [None, DrainNotification.create("run", 0)])
def test_what_a_driver_wrote_is_read(phase, drain):
    state = DriverState(3, phase, drain)
    assert DriverState.of(of_driver(state.encode())) == state


WRITTEN_STATE = DriverState(3, DrainPhase.READING, None).encode()
WRITTEN = json.loads(WRITTEN_STATE)
ASKED = DrainNotification.create("run", 0)


@pytest.mark.parametrize(
    ("word", "drain", "phase"),
    [
        ("going on", None, DrainPhase.READING),
        ("going on", ASKED, DrainPhase.CUT),
        ("publishing", None, DrainPhase.ENDING),
        ("publishing", ASKED, DrainPhase.PUBLISHING),
        ("over", None, DrainPhase.DONE),
        ("over", ASKED, DrainPhase.DRAINED),
    ],
)
def test_what_an_older_release_wrote_is_read(word, drain, phase):
    text = None if drain is None else drain.encode().decode()
    written = json.dumps({"play": 3, "phase": word, "drain": text, "later": 1}).encode()
    assert DriverState.of(of_driver(written)) == DriverState(3, phase, drain)


OTHERS = {
    "that it is over, in another way": {"play": 3, "drain": None, "over": True},
    "a phase that is not known": {**WRITTEN, "phase": "of another release"},
    "no place of the play": {**WRITTEN, "play": None},
    "a request of another kind": {**WRITTEN, "drain": 7},
    "a request that says something else": {**WRITTEN, "drain": "{}"},
    "no fields at all": 7,
}


@pytest.mark.parametrize("fields", OTHERS.values(), ids=OTHERS)
def test_what_a_driver_of_another_release_wrote_is_refused_by_the_name_of_the_manifest(
    fields, tmp_path
):
    other = job(tmp_path)
    other.take(resume=True)
    publish(other._lease, of_driver(json.dumps(fields).encode()))
    for begin in (job(tmp_path).check, job(tmp_path).take):
        for resume in (True, False):
            with pytest.raises(CheckpointRefused, match=r"Manifest 000001-000000004 of job 'job'"):
                begin(resume=resume)


def counts(key):
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    pairs = (
        pipeline
        | beam.Create([key])
        | beam.Map(lambda key: (key, 1)).with_output_types(tuple[type(key), int])
    )
    _ = pairs | beam.GroupByKey() | beam.Map(str)
    return plan_of(pipeline)


def test_a_pipeline_whose_coders_differ_cannot_go_on_and_the_difference_is_told(tmp_path):
    """State of the old version would be read with the coders of the new one."""
    old, new = counts("a"), counts(1)
    durable = DurableJob.at(str(tmp_path), "job", "run", identity(old), 1, 2)
    rounds = InMemoryRounds(old, 1, durable=durable)
    try:
        rounds.run_to_end()
    finally:
        rounds.close()
        durable.settle()
    DurableJob.at(str(tmp_path), "job", "run", identity(old), 1, 2).check(resume=True)
    with pytest.raises(CheckpointRefused, match=r"(?s)cannot go on from checkpoint.*coded as"):
        DurableJob.at(str(tmp_path), "job", "run", identity(new), 1, 2).check(resume=True)


class OneCoder(beam.coders.StrUtf8Coder):
    """One format of a key."""

    def to_runner_api_parameter(self, context):
        return beam.coders.Coder.to_runner_api_parameter(self, context)


class OtherCoder(OneCoder):
    """Another format of it."""


class Named(str):
    """A key with a coder of its own."""


def counts_with(coder):
    beam.coders.registry.register_coder(Named, coder)
    return identity(counts(Named("a")))


def test_a_coder_that_was_pickled_is_told_by_its_class(tmp_path):
    old, new = counts_with(OneCoder), counts_with(OtherCoder)
    before = {name: without_classes(text) for name, text in old.items()}
    assert before != old
    for written in (old, before):
        folder = str(tmp_path / f"{written is old}")
        durable = DurableJob.at(folder, "job", "run", written, 1, 2)
        durable.take(resume=True)
        publish(durable._lease, replace(of_driver(WRITTEN_STATE), fingerprint=written))
        DurableJob.at(folder, "job", "run", old, 1, 2).check(resume=True)
    with pytest.raises(CheckpointRefused, match=r"OneCoder.* is .*OtherCoder"):
        DurableJob.at(str(tmp_path / "True"), "job", "run", new, 1, 2).check(resume=True)


# --- what is not there ----------------------------------------------------------------------------


def published(folder):
    """The folder of a job that has published two checkpoints."""
    first = job(folder)
    first.take(resume=True)
    for number in (1, 2):
        manifest = Manifest("job", "run", 1, number, 20, 0, {}, 2, (), WRITTEN_STATE)
        publish(first._lease, manifest)
    return first


@pytest.mark.parametrize("resume", [True, "required"])
def test_a_job_whose_manifests_are_gone_does_not_begin_anew_unless_it_is_asked_to(tmp_path, resume):
    published(tmp_path)
    shutil.rmtree(tmp_path / "job" / "manifests")
    for begin in (job(tmp_path).check, job(tmp_path).take):
        with pytest.raises(CheckpointRefused, match=r"claims/published is there.*without --resume"):
            begin(resume=resume)
    job(tmp_path).check(resume=False)
    assert job(tmp_path).take(resume=False) is None


def test_files_of_later_checkpoints_without_a_manifest_are_of_a_job_that_had_one(tmp_path):
    """A release before this one left no mark."""
    files = tmp_path / "job" / "files"
    files.mkdir(parents=True)
    of_first = files / file_name(Stamp(1, 1), 0, 0, "a" * 64)
    of_first.touch()
    job(tmp_path).check(resume=True)
    (files / file_name(Stamp(1, 2), 0, 0, "a" * 64)).touch()
    with pytest.raises(CheckpointRefused, match=r"files/000001-000000002-000-0000"):
        job(tmp_path).check(resume=True)


def test_a_job_whose_first_checkpoints_all_failed_begins(tmp_path):
    """The disk was full, for instance: files are there, of later checkpoints too."""
    job(tmp_path).take(resume=True)
    files = tmp_path / "job" / "files"
    files.mkdir()
    (files / file_name(Stamp(1, 2), 0, 0, "a" * 64)).touch()
    job(tmp_path).check(resume=True)
    assert job(tmp_path).take(resume=True) is None
    (tmp_path / "job" / "claims" / "000001-0123").write_text("of a release before this one")
    with pytest.raises(CheckpointRefused, match="to resume from"):
        job(tmp_path).check(resume=True)


def test_a_job_that_died_before_its_first_checkpoint_begins_if_it_need_not_have_one(tmp_path):
    job(tmp_path).take(resume=True)
    assert job(tmp_path).take(resume=True) is None
    with pytest.raises(CheckpointRefused, match="--resume=required does not begin without one"):
        job(tmp_path).take(resume="required")


def test_an_empty_folder_is_refused_if_there_must_be_a_checkpoint(tmp_path):
    with pytest.raises(CheckpointRefused, match="mounted"):
        job(tmp_path).check(resume="required")


@pytest.mark.parametrize("resume", [True, "required"])
def test_an_empty_folder_is_refused_if_a_run_has_claimed_it_once(tmp_path, resume):
    with pytest.raises(CheckpointRefused, match=r"has claimed it under epoch 1.*without --resume"):
        job(tmp_path, held=1).check(resume=resume)
    assert not list(tmp_path.iterdir())
    job(tmp_path, held=1).check(resume=False)
    # A job that died before its first checkpoint has left its claim.
    job(tmp_path).take(resume=True)
    assert job(tmp_path, held=1).check(resume=True) is False


@pytest.mark.parametrize("backup", [True, False])
def test_a_job_goes_on_from_a_backup_and_begins_anew_where_its_folder_was_removed(tmp_path, backup):
    """The metadata store outlives the folder, and knows of greater epochs."""
    store, folder = MemoryMetadataStore(), tmp_path / "job"
    run = runs.Run("run", "old", "job", "", "RUNNING", True, 1, str(tmp_path), epoch=9)
    published(tmp_path)
    runs.begin(store, run)
    shutil.rmtree(folder / "claims" if backup else folder)

    mine = job(tmp_path, runs.held(store, run))
    mine.take(resume=backup)
    runs.begin(store, replace(run, job_id="new", run_id="mine", epoch=mine.epoch))
    assert {each.run_id: each.state for each in runs.known(store)} == {
        "run": "FAILED",
        "mine": "RUNNING",
    }


def test_a_run_that_has_published_does_not_begin_anew_by_itself(tmp_path):
    """Its folder was removed while it ran; options say what may be done at a start only."""
    mine = published(tmp_path)
    mine.number = 2
    shutil.rmtree(tmp_path / "job" / "manifests")
    with pytest.raises(CheckpointRefused):
        mine.take(resume=False)
    never = job(tmp_path / "other")
    never.take(resume=True)
    assert never.take(resume=True) is None, "it has lost nothing"
