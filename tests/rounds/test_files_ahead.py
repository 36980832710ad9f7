"""Files of slots are brought to where these are to move, while the job goes on."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest
from test_warm_copies import Job

from sparkdrain.hosts.executor import Executor
from sparkdrain.local_state.notes import found_notes
from sparkdrain.rounds.driver import supply as supply_of_files
from sparkdrain.rounds.driver.supply import BringFiles, Brought, HostSupply, brought
from sparkdrain.rounds.slots.checkpoint_place import CheckpointPlace
from sparkdrain.stages.workers.preparation import Preparation
from tests.support.waiting import wait_until

B3, C4 = Executor("b", "3"), Executor("c", "4")


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


@pytest.fixture
def place(job):
    return CheckpointPlace(job.paths, 1, str(job.state))


def test_files_of_slots_that_are_to_move_are_here_and_those_of_no_others(job, place):
    job.publish(3, {0: [b"zero"], 1: [b"one", b"both"], 2: [b"two"]})
    assert brought(place, [1, 2]) == Brought([1, 2])
    assert job.holds(b"one", b"both", b"two")
    assert not job.holds(b"zero")
    assert not any(note.is_held for note in found_notes(job.state / "notes")), "it ends here"


def test_a_slot_whose_files_cannot_be_brought_stays_where_it_is(job, place):
    job.publish(3, {0: [b"whole"], 1: [b"damaged"]})
    (damaged,) = Path(job.paths.files).glob("*-0001-*")
    damaged.write_bytes(b"DAMAGED")
    answer = brought(place, [0, 1])
    assert answer.slots == [0]
    assert damaged.name in answer.wrong


def test_what_is_brought_is_of_the_newest_checkpoint_when_an_executor_begins(job, place):
    assert brought(place, [0]) == Brought((), f"{job.paths.folder} has no checkpoint")
    job.publish(3, {0: [b"older"]})
    job.publish(7, {0: [b"newest"]})
    assert brought(place, [0]) == Brought([0])
    assert job.holds(b"newest")
    assert not job.holds(b"older")


def test_slots_move_without_files_to_a_host_that_can_keep_none(job, tmp_path):
    job.publish(3, {0: [b"zero"], 1: [b"one"]})
    (tmp_path / "no-folder").touch()
    nowhere = CheckpointPlace(job.paths, 1, str(tmp_path / "no-folder"))
    assert brought(nowhere, [1]) == Brought([1])


def test_executors_are_asked_once_and_the_job_does_not_wait_for_them(place):
    asked, go_on = [], threading.Event()
    stopped = threading.Event()

    def ask(executors, question):
        asked.append((executors, question))
        assert go_on.wait(30)
        told = {B3: Brought([0], "no room"), C4: Brought([2])}
        return {one: json.loads(json.dumps(answer)) for one, answer in told.items()}

    supply = HostSupply(ask, stopped.set, place, Preparation.of({}))
    supply.begin({2: C4, 0: B3, 1: B3})
    assert supply.there() is None
    supply.close()
    assert stopped.is_set()
    go_on.set()
    wait_until(lambda: supply.there() is not None, seconds=30)
    assert supply.there() == {0, 2}, "what slot 1 needs is not there"
    assert supply.wrong == "no room"
    ((executors, question),) = asked
    assert executors == [B3, C4]
    assert question.slots == {"3": [0, 1], "4": [2]}


def test_a_task_that_spark_has_run_elsewhere_brings_nothing(job, place, monkeypatch):
    monkeypatch.setattr(supply_of_files, "worker", Mock)
    job.publish(1, {0: [b"zero"]})
    question = BringFiles(place, Preparation.of({}), {"3": [0]})
    for where, brings in ((None, ()), (C4, ()), (B3, [0])):
        monkeypatch.setattr(supply_of_files, "executor_of", lambda pid, where=where: where)
        assert question().slots == brings
        assert job.holds(b"zero") == bool(brings)
