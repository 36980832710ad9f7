"""A job belongs to the driver that claimed it last."""

from __future__ import annotations

import threading

import pytest
from faulty_storage import Fault, FaultyStorage

from sparkdrain.checkpoints.lease import claim
from sparkdrain.checkpoints.manifest import Manifest
from sparkdrain.checkpoints.paths import Stamp
from sparkdrain.checkpoints.publish import newest, publish, read_manifest
from sparkdrain.errors import CheckpointDamaged, CheckpointFailed, Fenced


def manifest(lease, number):
    return Manifest(lease.paths.job_name, "run", lease.epoch, number, 0, 0)


def test_who_lost_the_job_cannot_publish(storage, paths):
    first = claim(storage, paths, "a", "")
    publish(first, manifest(first, 1))
    second = claim(storage, paths, "b", "")
    assert second.epoch > first.epoch
    with pytest.raises(Fenced, match=r"'a job/of mine' was taken over .*000002-b"):
        publish(first, manifest(first, 2))
    assert newest(storage, paths).number == 1
    publish(second, manifest(second, 2))
    assert newest(storage, paths) == manifest(second, 2)
    assert newest(storage, paths, number=1) == manifest(first, 1)
    assert newest(storage, paths, number=3) is None


def meanwhile(what, act):
    """A storage in which ``act`` happens right before the first call of that kind."""
    acts = [act]

    def ask(call):
        if acts and call.startswith(what):
            acts.pop()(storage)
        return Fault.NONE

    storage = FaultyStorage({}, ask)
    return storage


def test_who_loses_the_job_while_it_publishes_is_told(paths):
    storage = meanwhile("publish", lambda storage: claim(storage, paths, "b", ""))
    lease = claim(storage, paths, "a", "")
    with pytest.raises(Fenced, match="000002-b"):
        publish(lease, manifest(lease, 1))


def test_of_two_that_see_each_others_claim_both_try_again(paths):
    # What another driver writes that began at the same time, and has not looked yet.
    storage = meanwhile("write", lambda storage: storage.write(paths.claim(1, "b"), [b""]))
    lease = claim(storage, paths, "a", "")
    assert lease.epoch > 1
    lease.check()


def test_a_checkpoint_that_is_removed_while_it_is_read_makes_way_for_a_newer_one(paths):
    def replace(storage):
        publish(lease, manifest(lease, 2))
        storage.delete([paths.manifest(Stamp(1, 1))])

    storage = meanwhile("read", replace)
    lease = claim(storage, paths, "a", "")
    publish(lease, manifest(lease, 1))
    assert newest(storage, paths) == manifest(lease, 2)


def test_publishing_again_does_nothing(storage, paths):
    lease = claim(storage, paths, "a", "")
    publish(lease, manifest(lease, 1))
    publish(lease, manifest(lease, 1))
    assert len(storage.list(paths.manifests)) == 1


def test_a_manifest_of_another_driver_is_not_published(storage, paths):
    lease = claim(storage, paths, "a", "")
    other = claim(storage, paths, "b", "")
    with pytest.raises(ValueError, match="epoch 1"):
        publish(other, manifest(lease, 1))


def test_drivers_that_claim_at_once_have_different_epochs(storage, paths):
    start = threading.Barrier(6)
    leases = []

    def run(token):
        start.wait(30)
        leases.append(claim(storage, paths, token, ""))

    threads = [threading.Thread(target=run, args=(token,)) for token in "abcdef"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    epochs = sorted(lease.epoch for lease in leases)
    assert len(set(epochs)) == 6
    for lease in leases:
        if lease.epoch == epochs[-1]:
            lease.check()
        else:
            with pytest.raises(Fenced):
                lease.check()


def test_a_folder_that_vanished_is_an_error_not_a_new_beginning(storage, paths):
    lease = claim(storage, paths, "a", "")
    publish(lease, manifest(lease, 1))
    storage.delete([paths.claim(1, "a")])
    with pytest.raises(CheckpointFailed, match=r"removed from .* while the job was running"):
        publish(lease, manifest(lease, 2))


def test_claims_that_vanished_do_not_make_old_checkpoints_the_newest(storage, paths):
    for token in "abc":
        lease = claim(storage, paths, token, "")
    publish(lease, manifest(lease, 7))
    storage.delete([f"{paths.claims}/{name}" for name in storage.list(paths.claims)])
    again = claim(storage, paths, "d", "")
    publish(again, manifest(again, 1))
    assert newest(storage, paths) == manifest(again, 1)


def test_garbage_in_the_folder_is_of_no_matter(storage, paths):
    for folder in (paths.claims, paths.manifests, paths.files):
        for name in ("README", ".nfs0001", "9-9", "999999-999999999.manifest.77.part", "a/b"):
            storage.write(f"{folder}/{name}", [b"?"])
    lease = claim(storage, paths, "a", "")
    assert lease.epoch == 1
    publish(lease, manifest(lease, 1))
    assert newest(storage, paths) == manifest(lease, 1)


def test_the_newest_checkpoint_is_never_passed_over(storage, paths):
    lease = claim(storage, paths, "a", "")
    for number in (1, 2):
        publish(lease, manifest(lease, number))
    storage.write(paths.manifest(Stamp(1, 2)), [b"garbage"])
    with pytest.raises(CheckpointDamaged, match=r"000001-000000002.manifest is no manifest"):
        newest(storage, paths)
    assert newest(storage, paths, number=1) == manifest(lease, 1)


def test_a_manifest_under_another_name_is_refused(storage, paths):
    lease = claim(storage, paths, "a", "")
    publish(lease, manifest(lease, 1))
    (data,) = storage.chunks(paths.manifest(Stamp(1, 1)))
    storage.write(paths.manifest(Stamp(1, 2)), [data])
    with pytest.raises(CheckpointDamaged, match="renamed or copied"):
        newest(storage, paths)
    assert read_manifest(storage, paths, Stamp(1, 1)).number == 1
