"""Uploads go on in the background, bring what is new, and tell how they ended."""

from __future__ import annotations

import errno
import os
import random
import threading

import pytest
from faulty_storage import Fault, FaultyStorage
from snapshots import change, rows, rows_in, wait_for

from sparkdrain.checkpoints import upload
from sparkdrain.checkpoints.manifest import ShardState
from sparkdrain.checkpoints.restore import restore
from sparkdrain.checkpoints.storage import CHUNK, file_chunks
from sparkdrain.checkpoints.upload import Destination, Uploaded, Uploader
from timers_state import open_store


class Watched(FaultyStorage):
    """Holds calls back while ``gate`` is closed."""

    def __init__(self, fault=Fault.NONE):
        super().__init__({}, self._ask)
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.fault = fault

    def _ask(self, what):
        self.entered.set()
        assert self.gate.wait(60)
        return self.fault


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def snapshot(tmp_path):
    """Makes a directory that an uploader can have."""

    def make(name, **files):
        directory = tmp_path / name
        directory.mkdir()
        for key, data in files.items():
            (directory / f"{key}.sst").write_bytes(data)
        return directory

    return make


def test_a_second_upload_brings_what_is_new(paths, snapshot):
    storage = Watched()
    uploader = Uploader(Destination(storage, paths, 1, 0, 0))
    uploader.begin(1, snapshot("one", a=b"1" * 100, b=b"2" * 100))
    first = wait_for(uploader)
    uploader.begin(2, snapshot("two", b=b"2" * 100, c=b"3" * 10))
    second = wait_for(uploader)
    assert (first.number, first.uploaded_bytes) == (1, 200)
    assert (second.number, second.uploaded_bytes, second.error) == (2, 10, "")
    assert [file.name for file in second.files] == ["b.sst", "c.sst"]
    assert second.files[0].path == first.files[1].path


def test_what_is_not_in_the_last_checkpoint_any_more_is_brought_again(paths, snapshot):
    # It may have been collected since.
    uploader = Uploader(Destination(Watched(), paths, 1, 0, 0))
    for number, files in enumerate([{"a": b"1"}, {"b": b"2"}, {"a": b"1"}], 1):
        uploader.begin(number, snapshot(str(number), **files))
        assert wait_for(uploader).uploaded_bytes == 1


def test_the_last_snapshot_is_kept_until_the_next_is_there(paths, snapshot, tmp_path):
    """Else a new file may have the identity of one that is gone, and be taken for it."""
    storage = Watched()
    uploader = Uploader(Destination(storage, paths, 1, 0, 0))
    uploader.begin(1, snapshot("one", a=b"1"))
    wait_for(uploader)
    storage.gate.clear()
    storage.entered.clear()
    uploader.begin(2, snapshot("two", b=b"2"))
    assert storage.entered.wait(30)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]
    storage.gate.set()
    wait_for(uploader)
    assert [path.name for path in tmp_path.iterdir()] == ["two"]


def test_files_that_differ_only_in_their_ends_are_both_brought(paths, snapshot, tmp_path):
    storage = Watched()
    uploader = Uploader(Destination(storage, paths, 1, 0, 0))
    files = {name: bytes(CHUNK) + name.encode() for name in ("a", "b")}
    uploader.begin(1, snapshot("one", **files))
    restore(storage, paths, ShardState(0, 0, wait_for(uploader).files), tmp_path / "back")
    assert {name: (tmp_path / "back" / f"{name}.sst").read_bytes() for name in files} == files


def test_a_file_of_the_same_name_with_other_content_is_brought(paths, snapshot):
    """After an undo, RocksDB may use the names of tables again."""
    storage = Watched()
    uploader = Uploader(Destination(storage, paths, 1, 0, 0))
    for number, content in enumerate([b"1", b"2"], 1):
        uploader.begin(number, snapshot(str(number), a=content))
        (file,) = wait_for(uploader).files
        assert storage.files[paths.file(file.path)] == content


def test_beginning_again_does_nothing(paths, snapshot):
    storage = Watched()
    uploader = Uploader(Destination(storage, paths, 1, 0, 0))
    one = snapshot("one", a=b"1")
    uploader.begin(1, one)
    ended = wait_for(uploader)
    again = snapshot("again", b=b"2")
    uploader.begin(1, one)
    uploader.begin(1, again)
    assert uploader.poll() == ended
    assert not again.exists()
    assert one.exists()


def test_who_waits_for_an_upload_has_its_end_when_it_has_ended(paths, snapshot):
    storage = Watched()
    storage.gate.clear()
    uploader = Uploader(Destination(storage, paths, 1, 0, 0))
    uploader.await_end(60)  # nothing was begun
    uploader.begin(1, snapshot("one", a=b"1"))
    uploader.await_end(0.01)
    assert uploader.poll() is None
    threading.Timer(0.05, storage.gate.set).start()
    uploader.await_end(60)
    assert uploader.poll().number == 1


def test_nothing_to_tell_before_anything_was_begun(paths):
    assert Uploader(Destination(Watched(), paths, 1, 0, 0)).poll() is None


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.UNCLEAR, Fault.PARTIAL])
def test_an_upload_that_failed_says_so_and_the_next_one_is_whole(paths, snapshot, tmp_path, fault):
    storage = Watched(fault)
    uploader = Uploader(Destination(storage, paths, 1, 0, 0))
    uploader.begin(1, snapshot("one", a=b"1234"))
    ended = wait_for(uploader)
    assert ended.error.startswith(f"no luck: write {paths.files}/000001-000000001-000-0000-")
    assert not ended.files
    assert uploader.poll() == ended
    storage.fault = Fault.NONE
    uploader.begin(2, snapshot("two", a=b"1234"))
    restore(storage, paths, ShardState(0, 0, wait_for(uploader).files), tmp_path / "back")
    assert (tmp_path / "back" / "a.sst").read_bytes() == b"1234"
    assert not (tmp_path / "one").exists()


def test_a_snapshot_that_is_gone_is_an_error_not_an_empty_state(paths, tmp_path):
    uploader = Uploader(Destination(Watched(), paths, 1, 0, 0))
    uploader.begin(1, tmp_path / "gone")
    assert wait_for(uploader).error == f"the snapshot {tmp_path / 'gone'} is gone"


def test_a_snapshot_that_could_not_be_made_is_told_like_an_upload_that_failed(paths, snapshot):
    uploader = Uploader(Destination(Watched(), paths, 1, 0, 0))
    uploader.begin(1, snapshot("one", a=b"1"))
    wait_for(uploader)
    uploader.fail(2, "No space left")
    assert uploader.poll() == Uploaded(2, error="No space left")
    uploader.begin(3, snapshot("three", a=b"1", b=b"2"))
    ended = wait_for(uploader)
    assert (ended.number, ended.uploaded_bytes) == (3, 1)


def test_a_disk_that_cannot_be_read_is_an_error(paths, snapshot, monkeypatch):
    def broken(path, moved):
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr(upload, "_digest", broken)
    uploader = Uploader(Destination(Watched(), paths, 1, 0, 0))
    uploader.begin(1, snapshot("one", a=b"1"))
    error = wait_for(uploader).error
    assert "Input/output error" in error
    assert "a.sst" in error


def test_a_storage_that_hangs_is_told_in_time_and_the_next_upload_waits_for_it(paths, snapshot):
    storage, clock = Watched(), Clock()
    storage.gate.clear()
    uploader = Uploader(Destination(storage, paths, 1, 0, 0), stall_seconds=60, clock=clock)
    uploader.begin(1, snapshot("one", a=b"1"))
    assert storage.entered.wait(30)
    clock.now = 59
    assert uploader.poll() is None
    clock.now = 61
    assert uploader.poll().error == f"the storage {paths.root} has not moved for 61 s"
    uploader.begin(2, snapshot("two", a=b"1", b=b"2"))
    clock.now = 120
    assert uploader.poll() is None
    clock.now = 122
    assert "has not moved" in uploader.poll().error
    assert len([t for t in threading.enumerate() if t.name == "upload-0-0"]) == 1
    uploader.begin(3, snapshot("three", a=b"1", b=b"2"))
    storage.gate.set()
    ended = wait_for(uploader)
    assert (ended.number, ended.error, len(ended.files)) == (3, "", 2)


def test_an_upload_that_was_told_as_failed_never_succeeds_later(paths, snapshot):
    storage, clock = Watched(), Clock()
    storage.gate.clear()
    uploader = Uploader(Destination(storage, paths, 1, 0, 0), stall_seconds=60, clock=clock)
    uploader.begin(1, snapshot("one", a=b"1"))
    assert storage.entered.wait(30)
    clock.now = 61
    told = uploader.poll()
    assert "has not moved" in told.error
    (thread,) = [t for t in threading.enumerate() if t.name == "upload-0-0"]
    storage.gate.set()
    thread.join(30)
    assert uploader.poll() == told


def test_an_error_without_words_is_an_error_too(paths, snapshot):
    class Wordless(Watched):
        def write(self, path, chunks):
            raise RuntimeError

    uploader = Uploader(Destination(Wordless(), paths, 1, 0, 0))
    uploader.begin(1, snapshot("one", a=b"1"))
    assert wait_for(uploader).error == "RuntimeError"


def test_an_upload_that_is_overtaken_is_given_up(paths, snapshot, tmp_path):
    storage = Watched()
    storage.gate.clear()
    uploader = Uploader(Destination(storage, paths, 1, 0, 0))
    uploader.begin(1, snapshot("one", a=b"1", b=b"2"))
    assert storage.entered.wait(30)
    uploader.begin(2, snapshot("two", c=b"3"))
    uploader.begin(3, snapshot("three", d=b"4"))
    storage.gate.set()
    assert wait_for(uploader).number == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["three"]


def test_the_end_of_an_upload_that_was_overtaken_is_not_told(paths, snapshot):
    class OneByOne(FaultyStorage):
        calls, may = threading.Semaphore(0), threading.Semaphore(0)

        def __init__(self):
            super().__init__({}, self._ask)

        def _ask(self, what):
            self.calls.release()
            assert self.may.acquire(timeout=30)
            return Fault.NONE

    storage = OneByOne()
    uploader = Uploader(Destination(storage, paths, 1, 0, 0))
    uploader.begin(1, snapshot("one", a=b"1"))
    assert storage.calls.acquire(timeout=30)
    uploader.begin(2, snapshot("two", b=b"2"))
    storage.may.release()
    assert storage.calls.acquire(timeout=30)  # the first has ended
    assert uploader.poll() is None
    storage.may.release()
    assert wait_for(uploader).number == 2


def test_closing_gives_up_and_leaves_nothing(paths, snapshot, tmp_path):
    storage = Watched()
    uploader = Uploader(Destination(storage, paths, 1, 0, 0))
    uploader.begin(1, snapshot("one", a=b"1"))
    wait_for(uploader)
    storage.gate.clear()
    storage.entered.clear()
    uploader.begin(2, snapshot("two", b=b"2", c=b"3"))
    assert storage.entered.wait(30)
    (thread,) = [t for t in threading.enumerate() if t.name == "upload-0-0"]
    uploader.close()
    assert uploader.poll() is None
    storage.gate.set()
    thread.join(30)
    assert not list(tmp_path.iterdir())


def test_a_file_is_in_memory_piece_by_piece(tmp_path):
    (tmp_path / "file").write_bytes(bytes(2 * CHUNK + 1))
    assert [len(chunk) for chunk in file_chunks(tmp_path / "file")] == [CHUNK, CHUNK, 1]


def test_state_that_did_not_change_uploads_nothing(storage, paths, tmp_path):
    store = open_store(tmp_path / "live")
    change(store, range(1000))
    uploader = Uploader(Destination(storage, paths, 1, 0, 0))
    sent = []
    for number in range(3):
        store.snapshot(tmp_path / str(number))
        uploader.begin(number, tmp_path / str(number))
        sent.append(wait_for(uploader).uploaded_bytes)
    assert sent[0] > 0
    assert sent[1:] == [0, 0]
    store.abandon()


def test_tables_that_are_known_are_not_read_again(storage, paths, tmp_path, monkeypatch):
    store = open_store(tmp_path / "live")
    change(store, range(1000))
    uploader = Uploader(Destination(storage, paths, 1, 0, 0))
    store.snapshot(tmp_path / "one")
    uploader.begin(1, tmp_path / "one")
    wait_for(uploader)
    read = []
    digest = upload._digest
    monkeypatch.setattr(
        upload, "_digest", lambda path, moved: read.append(path) or digest(path, moved)
    )
    change(store, [1])
    store.snapshot(tmp_path / "two")
    uploader.begin(2, tmp_path / "two")
    ended = wait_for(uploader)
    tables = {path.name for path in read if path.suffix == ".sst"}
    assert len(tables) == 1
    assert len([file for file in ended.files if file.name.endswith(".sst")]) == 2
    store.abandon()


def test_tables_are_known_by_content_after_an_undo_used_their_names_again(storage, paths, tmp_path):
    store = open_store(tmp_path / "live")
    change(store, range(1000))
    uploader = Uploader(Destination(storage, paths, 1, 0, 0))
    for number in range(1, 6):
        store.mark()
        change(store, range(1000))
        store.undo()
        change(store, range(1000))
        store.snapshot(tmp_path / str(number))
        uploader.begin(number, tmp_path / str(number))
        files = wait_for(uploader).files
        restore(storage, paths, ShardState(0, 0, files), tmp_path / f"back-{number}")
        assert rows_in(tmp_path / f"back-{number}") == rows(store)
    store.abandon()


def test_a_change_of_one_percent_uploads_about_one_percent(storage, paths, tmp_path):
    keys = 100_000
    store = open_store(tmp_path / "live")
    for start in range(0, keys, 20_000):
        change(store, range(start, start + 20_000))
    uploader = Uploader(Destination(storage, paths, 1, 0, 0))
    chance = random.Random(5)
    sent = []
    for number in range(20):
        if number:
            change(store, chance.sample(range(keys), keys // 100))
        store.snapshot(tmp_path / str(number))
        uploader.begin(number, tmp_path / str(number))
        sent.append(wait_for(uploader).uploaded_bytes)
    store.abandon()
    whole, *rest = sent
    assert whole > keys * 100
    shares = sorted(each / whole for each in rest)
    # RocksDB rewrites tables now and then, which are new then.
    assert shares[len(shares) // 2] < 0.02
    assert sum(shares) / len(shares) < 0.3
