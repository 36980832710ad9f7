"""A job belongs to the driver that claimed it last."""

from __future__ import annotations

import threading

import pytest
from faulty_storage import Fault, FaultyStorage

from sparkdrain.checkpoints.lease import claim
from sparkdrain.checkpoints.local_storage import LocalStorage
from sparkdrain.checkpoints.manifest import Manifest, encode
from sparkdrain.checkpoints.paths import Place, Stamp
from sparkdrain.checkpoints.publish import lost, newest, publish, read_manifest, take_up
from sparkdrain.checkpoints.publisher import collect
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


@pytest.mark.parametrize("amid", ["publish", "write {paths.mark}"])
def test_who_loses_the_job_while_it_publishes_is_told(paths, amid):
    storage = meanwhile(amid.format(paths=paths), lambda storage: claim(storage, paths, "b", ""))
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
        storage.delete([paths.manifest(Place(1, Stamp(1, 1)))])

    storage = meanwhile(f"read {paths.manifests}", replace)
    lease = claim(storage, paths, "a", "")
    publish(lease, manifest(lease, 1))
    assert newest(storage, paths) == manifest(lease, 2)


def test_a_claim_that_is_removed_while_it_is_read_shows_nothing(paths):
    storage = meanwhile(f"read {paths.claim(1, 'a')}", lambda it: it.delete([paths.claim(1, "a")]))
    claim(storage, paths, "a", "")
    claim(storage, paths, "b", "")
    assert lost(storage, paths) is None


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
    assert again.epoch > lease.epoch, "an epoch names files: it is nobody else's"
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
    storage.write(paths.manifest(Place(2, Stamp(1, 2))), [b"garbage"])
    with pytest.raises(CheckpointDamaged, match=r"000001-000000002.manifest is no manifest"):
        newest(storage, paths)
    assert newest(storage, paths, number=1) == manifest(lease, 1)


def test_a_manifest_under_another_name_is_refused(storage, paths):
    lease = claim(storage, paths, "a", "")
    publish(lease, manifest(lease, 1))
    (data,) = storage.chunks(paths.manifest(Place(1, Stamp(1, 1))))
    storage.write(paths.manifest(Place(2, Stamp(1, 2))), [data])
    with pytest.raises(CheckpointDamaged, match="renamed or copied"):
        newest(storage, paths)
    assert read_manifest(storage, paths, Place(1, Stamp(1, 1))).number == 1


# --- looks that miss what is there, as those of NFS may ----------------------------------------


class Alone(LocalStorage):
    """Looks of a machine that has not seen other claims yet."""

    def __init__(self, token):
        super().__init__()
        self._token = token

    def list(self, folder):
        found = super().list(folder)
        if not folder.endswith("/claims"):
            return found
        return {name: size for name, size in found.items() if name.endswith(self._token)}


@pytest.fixture
def rivals(paths):
    """Two drivers that have taken up checkpoint 1, and do not see each other's claims."""
    first = claim(Alone("first"), paths, "first", "")
    publish(first, manifest(first, 1))
    second = claim(Alone("second"), paths, "second", "")
    assert take_up(second).number == 1
    return first, second


@pytest.mark.parametrize("wins", [0, 1])
@pytest.mark.parametrize("number", [2, 3], ids=["the same number", "another number"])
def test_a_checkpoint_is_followed_by_one_other(rivals, paths, wins, number):
    winner, loser = rivals[wins], rivals[1 - wins]
    publish(winner, manifest(winner, 2))
    with pytest.raises(Fenced, match=r"which has published checkpoint 000000002 in .*manifests"):
        publish(loser, manifest(loser, number))
    publish(winner, manifest(winner, 3))
    assert newest(winner.storage, paths) == manifest(winner, 3)


def test_a_checkpoint_whose_followers_were_removed_is_followed_by_none(rivals, paths):
    first, second = rivals
    for number in range(2, 6):
        collect(first, publish(first, manifest(first, number)), 2)
    with pytest.raises(Fenced, match=r"000001-000000001.manifest, .* is not there any more"):
        publish(second, manifest(second, 2))
    assert newest(first.storage, paths) == manifest(first, 5)
    publish(first, manifest(first, 6))
    assert newest(first.storage, paths) == manifest(first, 6)


def test_there_is_one_first_checkpoint_even_when_it_was_removed(paths):
    first, second = (claim(Alone(token), paths, token, "") for token in ("first", "second"))
    for number in range(1, 5):
        collect(first, publish(first, manifest(first, number)), 2)
    with pytest.raises(Fenced, match=r"which has published its first checkpoint"):
        publish(second, manifest(second, 1))
    assert newest(first.storage, paths) == manifest(first, 4)


def test_a_driver_does_not_go_on_from_a_checkpoint_of_a_later_one(paths):
    first, second = (claim(Alone(token), paths, token, "") for token in ("first", "second"))
    publish(second, manifest(second, 1))
    with pytest.raises(Fenced, match=r"000000001/000001-000000001.manifest"):
        take_up(first)


def test_of_drivers_with_one_epoch_one_is_believed(paths):
    first, second = (claim(Alone(token), paths, token, "") for token in ("first", "second"))
    assert first.epoch == second.epoch
    publish(first, manifest(first, 1))
    first.storage.delete([paths.mark])
    other = Manifest(paths.job_name, "another run", second.epoch, 1, 0, 0)
    with pytest.raises(Fenced):
        publish(second, other)
    assert newest(first.storage, paths) == manifest(first, 1)


def test_a_checkpoint_that_was_said_to_have_failed_may_be_there(paths):
    failing = []

    def ask(what):
        return Fault.UNCLEAR if what.startswith("publish") and failing else Fault.NONE

    storage = FaultyStorage({}, ask)
    lease = claim(storage, paths, "a", "")
    failing.append(1)
    for number in (1, 2):
        with pytest.raises(CheckpointFailed):
            publish(lease, manifest(lease, number))
    failing.clear()
    assert publish(lease, manifest(lease, 3)) == Place(3, Stamp(1, 3))
    assert newest(storage, paths) == manifest(lease, 3)


def test_a_checkpoint_may_be_made_again_where_a_newer_one_was_removed(storage, paths):
    first = claim(storage, paths, "a", "")
    publish(first, manifest(first, 1))
    storage.delete([paths.manifest(publish(first, manifest(first, 2)))])
    second = claim(storage, paths, "b", "")
    assert take_up(second).number == 1
    assert publish(second, manifest(second, 2)) == Place(2, Stamp(2, 2))


# --- folders of releases whose manifests had no folders ----------------------------------------


def of_an_older_release(storage, paths, *stamps):
    for stamp in stamps:
        data = encode(Manifest(paths.job_name, "run", stamp.epoch, stamp.number, 0, 0))
        storage.write(f"{paths.manifests}/{stamp}.manifest", [data])


def test_a_job_goes_on_in_a_folder_of_an_older_release(storage, paths):
    of_an_older_release(storage, paths, Stamp(1, 9), Stamp(2, 3), Stamp(2, 4))
    lease = claim(storage, paths, "a", "")
    assert lease.epoch == 3
    assert take_up(lease).number == 4
    for number in (5, 6):
        published = publish(lease, manifest(lease, number))
        assert newest(storage, paths) == manifest(lease, number)
    collect(lease, published, 2)
    assert len(storage.list(paths.manifests)) == 2


def test_a_job_that_an_older_release_began_anew_does_not_go_on_by_itself(storage, paths):
    lease = claim(storage, paths, "a", "")
    publish(lease, manifest(lease, 7))
    of_an_older_release(storage, paths, Stamp(2, 1))
    with pytest.raises(CheckpointDamaged, match=r"000002-000000001.manifest, which an older"):
        newest(storage, paths)
