"""Whatever is in the folder, the state that a slot is opened with is that of the checkpoint."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkdrain.checkpoints.local_storage import LocalStorage
from sparkdrain.checkpoints.manifest import ShardState
from sparkdrain.checkpoints.paths import Paths
from sparkdrain.checkpoints.restore import restore
from sparkdrain.checkpoints.upload import Destination, Uploader
from sparkdrain.local_state.files import FileContent
from sparkdrain.local_state.folder import StateFolder
from sparkdrain.local_state.notes import SlotNote, found_notes
from sparkdrain.local_state.slot_files import SlotFiles
from sparkdrain.local_state.sweep import sweep_now_and_then
from tests.checkpoints.snapshots import change, wait_for
from timers_state import open_store

WEEKS = 30 * 86_400.0
NOTE = SlotNote("a job", "/checkpoints/a job", 0, 0)


class Checkpointed:
    """A slot that has published one checkpoint, and kept it in ``state``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths = Paths(str(folder / "durable"), "a job")
        self.storage = LocalStorage()
        self.store = open_store(folder / "live")
        self.uploader = Uploader(
            Destination(self.storage, self.paths, 1, 0, 0), keeper=self.slot_files()
        )
        self.number = 0
        self.shard = self.checkpoint(range(500))

    def checkpoint(self, keys: range) -> ShardState:
        self.number += 1
        change(self.store, keys)
        snapshot = self.folder / f"snapshot-{self.number}"
        self.store.snapshot(snapshot)
        self.uploader.begin(self.number, snapshot)
        uploaded = wait_for(self.uploader)
        assert (uploaded.error, uploaded.told) == ("", "")
        return ShardState(0, 0, uploaded.files)

    def slot_files(self) -> SlotFiles:
        return SlotFiles(str(self.folder / "state"), NOTE)

    def file(self, digest: str) -> Path:
        return self.folder / "state" / "files" / digest

    def close(self) -> None:
        self.store.abandon()
        self.uploader.close()


@pytest.fixture
def slot(tmp_path):
    slot = Checkpointed(tmp_path)
    yield slot
    slot.close()


def content_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def contents(shard: ShardState) -> dict[FileContent, str]:
    return {FileContent(file.digest, file.size): file.name for file in shard.files if file.path}


def opened(slot: Checkpointed, to: Path, shard: ShardState | None = None):
    files = slot.slot_files()
    try:
        return restore(slot.storage, slot.paths, shard or slot.shard, to, files), files.wrong
    finally:
        files.close()


def test_nothing_is_fetched_that_was_kept(slot, tmp_path):
    shutil.rmtree(slot.paths.files)  # there is nothing to fetch
    found, wrong = opened(slot, tmp_path / "back")
    assert (found.fetched_bytes, wrong) == (0, "")
    assert found.local_bytes == sum(file.size for file in slot.shard.files)
    assert list((tmp_path / "back").rglob("*.sst"))


def test_only_tables_share_their_bytes(slot, tmp_path):
    opened(slot, tmp_path / "back")
    for path in (tmp_path / "back").rglob("*"):
        assert path.is_dir() or (path.stat().st_nlink > 1) == (path.suffix == ".sst"), path


def test_a_store_that_goes_on_leaves_what_was_kept_as_it_is(slot, tmp_path):
    opened(slot, tmp_path / "back")
    before = content_of(tmp_path / "state" / "files")
    store = open_store(tmp_path / "back")
    change(store, range(1000), size=200)
    store.flush()
    store._db.compact_range(None, None)
    store.abandon()
    assert content_of(tmp_path / "state" / "files") == before


HOWS = ["as it was", "missing", "torn", "another byte", "zeros", "empty", "a folder", "a pipe"]


def spoil(path: Path, how: str) -> None:
    data = path.read_bytes()
    path.unlink()  # not in place: storage has the same file
    match how:
        case "as it was":
            path.write_bytes(data)
        case "torn":
            path.write_bytes(data[: len(data) // 2])
        case "another byte":
            path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        case "zeros":
            path.write_bytes(bytes(len(data)))
        case "empty":
            path.touch()
        case "a folder":
            path.mkdir()
        case "a pipe":
            os.mkfifo(path)


@pytest.fixture(scope="module")
def pristine():
    with tempfile.TemporaryDirectory() as name:
        slot = Checkpointed(Path(name))
        yield slot
        slot.close()


@given(data=st.data())
@settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_the_opened_state_is_that_of_the_checkpoint_whatever_was_there(pristine, data):
    with tempfile.TemporaryDirectory(dir=pristine.folder) as name:
        there = Path(name)
        shutil.copytree(pristine.folder / "state", there / "state")
        local = 0
        for file in pristine.shard.files:
            if file.path:
                how = data.draw(st.sampled_from(HOWS), label=file.name)
                local += file.size if how == "as it was" else 0
                spoil(there / "state" / "files" / file.digest, how)
        for foreign in data.draw(st.sets(st.sampled_from(["x.json", "y.lock", "files"]))):
            (there / "state" / "notes" / foreign).write_bytes(b"?")
        files = SlotFiles(str(there / "state"), NOTE)
        files.hold(1, contents(pristine.shard))
        found = restore(pristine.storage, pristine.paths, pristine.shard, there / "back", files)
        named = {each: there / "back" / name for each, name in contents(pristine.shard).items()}
        files.keep(1, named, lambda: None)
        files.close()
        restore(pristine.storage, pristine.paths, pristine.shard, there / "fetched")
        assert content_of(there / "back") == content_of(there / "fetched")
        assert found.local_bytes == local
        assert found.local_bytes + found.fetched_bytes == sum(f.size for f in pristine.shard.files)
        # What was fetched is there the next time.
        again = SlotFiles(str(there / "state"), NOTE)
        found = restore(pristine.storage, pristine.paths, pristine.shard, there / "again", again)
        again.close()
        assert found.fetched_bytes == 0
        assert files.wrong == ""


# What a process does to the folder; it is killed before each of these.
STEPS = {"open", "os.link", "os.rename", "os.remove", "os.mkdir", "os.utime", "fcntl.flock"}


def dies_before(step: int, act) -> bool:
    """Run ``act`` in a process that is killed before a step; whether it was."""
    child = os.fork()
    if not child:
        left = step

        def hook(event: str, _: object) -> None:
            nonlocal left
            if event in STEPS:
                left -= 1
                if left < 0:
                    os._exit(9)

        try:
            sys.addaudithook(hook)
            act()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.parametrize("link", [True, False])
def test_a_process_that_is_killed_before_any_step_leaves_nothing_wrong(slot, tmp_path, link):
    sources = {
        each: tmp_path / "snapshot-1" / name if link else Path(slot.paths.file(file.path))
        for (each, name), file in zip(
            contents(slot.shard).items(), (f for f in slot.shard.files if f.path), strict=True
        )
    }
    step = 0
    while True:
        state = tmp_path / f"state-{step}"
        now = 1.0

        def act(state: Path = state, now: float = now) -> None:
            files = SlotFiles(str(state), NOTE, lambda: now)
            files.hold(1, sources)
            files.keep(1, sources, lambda: None)
            files.published(1)
            files.close()

        was_killed = dies_before(step, act)
        back = tmp_path / f"back-{step}"
        files = SlotFiles(str(state), NOTE)
        restore(slot.storage, slot.paths, slot.shard, back, files)
        restore(slot.storage, slot.paths, slot.shard, tmp_path / f"fetched-{step}")
        assert content_of(back) == content_of(tmp_path / f"fetched-{step}")
        files.keep(1, {each: back / name for each, name in contents(slot.shard).items()}, int)
        assert files.wrong == ""
        folder = StateFolder(state)
        later = folder.swept() + 7200
        sweep_now_and_then(folder, later, lambda _: (10, 0, 10))
        names = {path.name for path in folder.files.iterdir()}
        assert names == {each.digest for each in sources}
        files.close()
        sweep_now_and_then(folder, later + WEEKS, lambda _: (10, 0, 10))
        assert not list(folder.files.iterdir())
        assert not [path for path in folder.notes.iterdir() if path.suffix != ".part"]
        if not was_killed:
            assert step > 10
            return
        step += 1


def test_what_the_newest_published_and_later_checkpoints_need_is_kept(slot):
    shards = {1: slot.shard}
    for number in range(2, 5):
        shards[number] = slot.checkpoint(range(100 * number, 100 * number + 50))
    (found,) = found_notes(slot.folder / "state" / "notes")
    assert set(found.note.needs) == {1, 2, 3, 4}  # the slot was told of no publication
    slot.uploader.published(3)
    shards[5] = slot.checkpoint(range(20))
    (found,) = found_notes(slot.folder / "state" / "notes")
    assert set(found.note.needs) == {3, 4, 5}
    folder = StateFolder(slot.folder / "state")
    sweep_now_and_then(folder, folder.swept() + 3600)
    there = {path.name for path in folder.files.iterdir()}
    needed = {c.digest for number in (3, 4, 5) for c in contents(shards[number])}
    assert there == needed


def test_slots_and_jobs_of_one_host_share_and_keep_what_the_other_needs(slot, tmp_path):
    named = {each: tmp_path / "snapshot-1" / name for each, name in contents(slot.shard).items()}
    other = SlotFiles(str(tmp_path / "state"), SlotNote("b", "/checkpoints/b", 0, 0))
    other.keep(1, named, lambda: None)
    slot.close()
    folder = StateFolder(tmp_path / "state")
    sweep_now_and_then(folder, folder.swept() + WEEKS)
    assert {path.name for path in folder.files.iterdir()} == {each.digest for each in named}
    other.close()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("call", ["link", "rename", "replace", "open", "write", "mkdir"])
def test_a_disk_that_refuses_costs_a_fetch_and_is_told_once(slot, monkeypatch, call, number):
    real = getattr(os, call)
    state = str(slot.folder / "state")

    def refuse(*arguments, **more):
        paths = [each for each in arguments if isinstance(each, (str, Path))]
        writes = call != "open" or arguments[1] & (os.O_WRONLY | os.O_RDWR)
        if writes and (call == "write" or any(str(each).startswith(state) for each in paths)):
            raise OSError(number, os.strerror(number))
        return real(*arguments, **more)

    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuse)
        slot.number += 1
        change(slot.store, range(50))
        slot.store.snapshot(slot.folder / "snapshot-2")
        slot.uploader.begin(2, slot.folder / "snapshot-2")
        uploaded = wait_for(slot.uploader)
        assert uploaded.error == ""
    shard = ShardState(0, 0, uploaded.files)
    back = slot.folder / "back"
    files = slot.slot_files()
    restore(slot.storage, slot.paths, shard, back, files)
    restore(slot.storage, slot.paths, shard, slot.folder / "fetched")
    assert content_of(back) == content_of(slot.folder / "fetched")
    files.close()
    if call in ("link", "replace"):
        assert "does not keep files of this job" in uploaded.told


def test_a_folder_that_cannot_be_used_is_named_and_nothing_fails(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    files = SlotFiles(str(tmp_path / "file"), NOTE)
    assert str(tmp_path / "file") in files.wrong
    files.hold(1, ())
    files.keep(1, {FileContent("a" * 64, 1): tmp_path / "file"}, lambda: None)
    assert not files.give(FileContent("a" * 64, 1), tmp_path / "to", lambda: None)
    files.close()
    monkeypatch.delenv("SPARKDRAIN_NOWHERE", raising=False)
    assert "set its variables" in SlotFiles("$SPARKDRAIN_NOWHERE/x", NOTE).wrong
    monkeypatch.setenv("SPARKDRAIN_HERE", str(tmp_path))
    files = SlotFiles("$SPARKDRAIN_HERE/x", NOTE)
    assert (files.wrong, (tmp_path / "x" / "files").is_dir()) == ("", True)
    files.close()


def test_a_folder_that_others_may_write_is_not_used(tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o777)
    files = SlotFiles(str(tmp_path / "state"), NOTE)
    assert "Other users may write" in files.wrong
    files.keep(1, {}, lambda: None)
    assert not list((tmp_path / "state" / "notes").iterdir())


def test_no_other_user_may_enter_the_folder(slot):
    state = slot.folder / "state"
    for path in (state, state / "files", state / "notes"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
