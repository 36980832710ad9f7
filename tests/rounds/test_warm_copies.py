"""A host fetches published files of slots that other hosts have."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

import pytest

from sparkdrain.checkpoints.lease import claim
from sparkdrain.checkpoints.local_storage import LocalStorage
from sparkdrain.checkpoints.manifest import FileEntry, Manifest, ShardState
from sparkdrain.checkpoints.paths import Paths, Stamp, file_name
from sparkdrain.checkpoints.publish import publish
from sparkdrain.fnapi.harness import Outside
from sparkdrain.fnapi.harnesses import Harnesses, HarnessJob
from sparkdrain.hosts.executor import Executor
from sparkdrain.local_state.files import FileContent
from sparkdrain.local_state.folder import StateFolder
from sparkdrain.local_state.notes import found_notes
from sparkdrain.local_state.slot_files import held_bytes
from sparkdrain.local_state.sweep import sweep
from sparkdrain.rounds.driver.placement import Placement, too_few_locations
from sparkdrain.rounds.messages import Orders, RoundHeader
from sparkdrain.rounds.slots.checkpoint_place import CheckpointPlace
from sparkdrain.rounds.slots.service import SlotService
from sparkdrain.rounds.slots.warm_copies import WarmCopies
from tests.support.waiting import wait_until

YEARS = 3000 * 86_400.0


class Job:
    """A job of two levels with checkpoints in a folder, and a host that has no slot of it."""

    def __init__(self, folder: Path) -> None:
        self.storage, self.paths = LocalStorage(), Paths(str(folder / "durable"), "a job")
        self.lease = claim(self.storage, self.paths, "a", "")
        self.state = folder / "state"
        self.copies = WarmCopies(CheckpointPlace(self.paths, 1, str(self.state)))

    def entry(self, slot: int, number: int, content: bytes) -> FileEntry:
        digest = hashlib.sha256(content).hexdigest()
        path = file_name(Stamp(1, number), 0, slot, digest)
        self.storage.write(self.paths.file(path), [content])
        return FileEntry(f"{digest[:6]}.sst", len(content), digest, path)

    def publish(self, number: int, contents: dict[int, list[bytes]]) -> None:
        """Each slot has the same files on both levels."""
        shards = []
        for slot, each in contents.items():
            files = tuple(self.entry(slot, number, content) for content in each)
            shards += [ShardState(level, slot, files) for level in (0, 1)]
        shards.sort(key=lambda shard: (shard.level, shard.slot))
        manifest = Manifest("a job", "run", 1, number, 1, 0, {}, len(contents), tuple(shards))
        publish(self.lease, manifest)

    def holds(self, *contents: bytes) -> bool:
        needed = [FileContent(hashlib.sha256(each).hexdigest(), len(each)) for each in contents]
        return held_bytes(str(self.state), {0: needed}).get(0, 0) == sum(map(len, contents))


@pytest.fixture
def job(tmp_path):
    job = Job(tmp_path)
    yield job
    job.copies.close()


def test_files_of_the_slots_that_were_asked_for_are_here_and_no_others(job):
    job.publish(1, {0: [b"zero"], 1: [b"one", b"both"], 2: [b"two", b"both"]})
    job.copies.want(1, (1, 2))
    wait_until(lambda: job.holds(b"one", b"two", b"both"), seconds=10)
    assert not job.holds(b"zero")
    # What lies here is what is in storage, byte for byte, and for this user only.
    kept = job.state / "files" / hashlib.sha256(b"one").hexdigest()
    assert (kept.read_bytes(), kept.stat().st_mode & 0o777) == (b"one", 0o600)


def test_nothing_is_fetched_that_is_here_and_what_no_checkpoint_needs_can_go(job):
    job.publish(1, {0: [], 1: [b"old", b"stays"]})
    job.copies.want(1, (1,))
    wait_until(lambda: job.holds(b"old", b"stays"), seconds=10)
    job.publish(2, {0: [], 1: [b"new"]})
    stays = FileEntry("stays.sst", 5, hashlib.sha256(b"stays").hexdigest(), "not-in-storage")
    new = job.entry(1, 3, b"newest")
    shards = tuple(
        ShardState(level, slot, (stays, new) if slot else ()) for level in (0, 1) for slot in (0, 1)
    )
    job.storage.write(job.paths.file("not-in-storage"), [b"other"])
    publish(job.lease, Manifest("a job", "run", 1, 3, 1, 0, {}, 2, shards))
    job.copies.want(3, (1,))
    wait_until(lambda: job.holds(b"newest", b"stays"), seconds=10)
    wait_until(lambda: sweeps_to(job, 2), seconds=10)
    assert job.holds(b"newest", b"stays")
    assert not job.holds(b"old")


def test_what_was_whole_is_needed_until_the_new_is(job):
    job.publish(1, {0: [b"old"]})
    job.copies.want(1, (0,))
    wait_until(lambda: job.holds(b"old"), seconds=10)
    job.publish(2, {0: [b"new"]})
    (new,) = (path for path in Path(job.paths.files).iterdir() if path.read_bytes() == b"new")
    new.write_bytes(b"NEW")
    job.copies.want(2, (0,))
    needs = lambda: [set(one.note.needs) for one in found_notes(job.state / "notes")]
    wait_until(lambda: needs() == [{1, 2}, {1, 2}], seconds=10)
    assert job.holds(b"old")


def sweeps_to(job: Job, left: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        sweep(StateFolder(job.state), lambda note: True, YEARS)
    return len(list((job.state / "files").iterdir())) == left


def test_what_is_damaged_in_storage_is_not_kept_and_the_next_checkpoint_is(job):
    job.publish(1, {0: [b"whole"], 1: [b"damaged"]})
    (damaged,) = Path(job.paths.files).glob("*-0001-*")
    damaged.write_bytes(b"DAMAGED")
    job.copies.want(1, (0, 1))
    wait_until(lambda: job.holds(b"whole"), seconds=10)
    job.publish(2, {0: [b"whole"], 1: [b"next"]})
    job.copies.want(2, (0, 1))
    wait_until(lambda: job.holds(b"whole", b"next"), seconds=10)
    assert not job.holds(b"DAMAGED")
    assert not job.holds(b"damaged")


def test_a_slot_that_is_wanted_no_more_is_held_no_more(job):
    job.publish(1, {0: [b"zero"], 1: [b"one"]})
    job.copies.want(1, (0, 1))
    wait_until(lambda: job.holds(b"zero", b"one"), seconds=10)
    job.copies.want(1, (0,))
    held = lambda: {one.note.slot for one in found_notes(job.state / "notes") if one.is_held}
    wait_until(lambda: held() == {0}, seconds=10)
    job.copies.close()
    wait_until(lambda: held() == set(), seconds=10)
    assert job.holds(b"zero", b"one")


class IdleSlot:
    """Runs nothing."""

    def run(self, header, records, push):
        pass

    def close(self):
        pass


def test_a_process_keeps_the_copies_that_its_header_names(job, tmp_path):
    job.publish(7, {0: [b"zero"], 1: [b"one"]})
    outside = Outside(HarnessJob("job", {}), Harnesses())
    place = CheckpointPlace(job.paths, 1, str(job.state))
    service = SlotService(b"", None, None, tmp_path, outside, place)
    service._slots = {0: IdleSlot()}
    orders = Orders(published=7)
    header = RoundHeader(
        1, 0, 0, 0, None, frozenset(), {}, (), False, 1.0, 10, orders=orders, copies=(1,)
    )
    service.run(header.encode(), iter(()), print)
    wait_until(lambda: job.holds(b"one"), seconds=10)
    service.close()
    assert not job.holds(b"zero")


def test_a_slot_whose_host_is_lost_goes_to_the_host_that_has_its_copy():
    here, keeper, new = Executor("a", "1"), Executor("b", "2"), Executor("c", "3")
    placement = Placement(2, warm_copies=1)
    placement.begin([here, keeper])
    assert placement.copies() == {0: (1,), 1: (0,)}
    placement.held = {0: {"b": 10}, 1: {"b": 10}}
    placement.begin([keeper, new])
    # The keeper's own slot stays; with two slots for two executors the other one has no room there.
    assert placement.places([]) == (new.place, keeper.place)
    placement = Placement(3)
    placement.begin([here, keeper, new])
    placement.held = {0: {"c": 10}}
    placement.begin([keeper, new])
    assert placement.places([])[0] == new.place


def test_a_user_hears_of_copies_for_which_there_is_no_host():
    assert not too_few_locations(set(), 0)
    assert not too_few_locations({"a", "b"}, 1)
    told = too_few_locations({"a"}, 1)
    assert "--warm_copies=1" in told
    assert "on 1 now" in told
