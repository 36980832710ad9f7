"""A driver that has lost its job says so, whatever it finds in storage."""

from __future__ import annotations

import pytest

from sparkdrain.checkpoints.storage import FileMissing
from sparkdrain.errors import CheckpointDamaged, CheckpointFailed, CheckpointRefused, Fenced
from sparkdrain.rounds.driver.durable import DurableJob
from sparkdrain.stages.failure import Failure
from sparkdrain.stages.spark_error import of_failure


def job(folder):
    return DurableJob.at(str(folder), "job", "run", {}, 2, 3)


def find_damage():
    message = "a file is missing"
    raise CheckpointDamaged(message)


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
