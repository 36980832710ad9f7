"""One contract for everything that keeps checkpoints, and what each does when it fails."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading

import memory_file_system
import pytest
from faulty_storage import Fault, FaultyStorage

from sparkdrain.checkpoints.beam_storage import BeamStorage, storage_at
from sparkdrain.checkpoints.local_storage import LocalStorage
from sparkdrain.checkpoints.storage import CHUNK, AlreadyThere, FileMissing, LocalFile, read
from sparkdrain.errors import CheckpointFailed


@pytest.fixture
def objects():
    memory_file_system.FILES.clear()
    memory_file_system.FAULTS.clear()
    return memory_file_system


@pytest.fixture(params=["disk", "objects", "test double"])
def place(request, tmp_path, objects):
    """A storage, and a folder in it."""
    match request.param:
        case "disk":
            root = str(tmp_path / "ro[o]t *")
            return storage_at(root), root
        case "objects":
            return storage_at("kept://bucket/root"), "kept://bucket/root"
        case _:
            return FaultyStorage({}, lambda what: Fault.NONE), "root"


def test_the_path_says_what_keeps_it():
    assert isinstance(storage_at("/a/b"), LocalStorage)
    assert isinstance(storage_at("a/b"), LocalStorage)
    assert isinstance(storage_at("gs://a/b"), BeamStorage)


def test_what_was_written_is_there(place):
    storage, root = place
    storage.write(f"{root}/folder/file", [b"1" * CHUNK, b"2", b""])
    assert read(storage, f"{root}/folder/file") == b"1" * CHUNK + b"2"
    assert storage.list(f"{root}/folder") == {"file": CHUNK + 1}
    assert storage.list(root) == {"folder/file": CHUNK + 1}
    storage.write(f"{root}/folder/file", [b"new"])
    assert read(storage, f"{root}/folder/file") == b"new"
    storage.write(f"{root}/folder/empty", [])
    assert storage.list(root) == {"folder/file": 3, "folder/empty": 0}


@pytest.fixture(params=["one disk", "two disks"])
def disks(request, monkeypatch):
    """Where local files are."""
    if request.param == "two disks":
        refuse(monkeypatch, "link", errno.EXDEV)


def refuse(monkeypatch, call, error):
    def refusing(*arguments):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, call, refusing)


@pytest.mark.usefixtures("disks")
@pytest.mark.parametrize("content", [b"", b"1", b"1" * CHUNK + b"2"])
def test_a_local_file_is_written_as_it_is(place, tmp_path, content):
    storage, root = place
    source, moved = tmp_path / "source", []
    source.write_bytes(content)
    storage.write(f"{root}/file", LocalFile(source, lambda: moved.append(1)))
    assert read(storage, f"{root}/file") == content
    assert len(moved) >= len(content) // CHUNK


@pytest.mark.parametrize("error", [errno.EXDEV, errno.EINVAL, errno.ENOSYS])
def test_a_local_file_that_the_system_cannot_copy_is_read(tmp_path, monkeypatch, error):
    refuse(monkeypatch, "link", errno.EXDEV)
    refuse(monkeypatch, "copy_file_range", error)
    (tmp_path / "source").write_bytes(b"content")
    LocalStorage().write(f"{tmp_path}/file", LocalFile(tmp_path / "source", lambda: None))
    assert (tmp_path / "file").read_bytes() == b"content"


def test_a_local_file_is_shared_on_one_disk(storage, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(b"content")
    for _ in range(2):
        storage.write(f"{tmp_path}/below/file", LocalFile(source, lambda: None))
    assert (tmp_path / "below" / "file").samefile(source)
    source.unlink()
    assert storage.list(f"{tmp_path}/below") == {"file": 7}
    assert read(storage, f"{tmp_path}/below/file") == b"content"


@pytest.mark.parametrize("error", [errno.EXDEV, errno.EPERM, errno.EMLINK])
def test_a_local_file_that_cannot_be_shared_is_copied(storage, tmp_path, monkeypatch, error):
    refuse(monkeypatch, "link", error)
    source = tmp_path / "source"
    source.write_bytes(b"content")
    storage.write(f"{tmp_path}/file", LocalFile(source, lambda: None))
    assert read(storage, f"{tmp_path}/file") == b"content"
    assert not (tmp_path / "file").samefile(source)


@pytest.mark.usefixtures("disks")
def test_a_copy_that_nobody_wants_any_more_leaves_nothing(place, tmp_path):
    storage, root = place
    (tmp_path / "source").write_bytes(b"1" * (2 * CHUNK))

    class Stopped(Exception):
        pass

    def stop():
        raise Stopped

    with pytest.raises(Stopped):
        storage.write(f"{root}/file", LocalFile(tmp_path / "source", stop))
    if isinstance(storage, LocalStorage):
        assert storage.list(root) == {}


def test_a_folder_is_not_what_begins_like_it(place):
    storage, root = place
    storage.write(f"{root}/ab/file", [b"1"])
    assert storage.list(f"{root}/a") == {}


def test_what_is_not_there_is_missing(place):
    storage, root = place
    assert storage.list(f"{root}/folder") == {}
    with pytest.raises(FileMissing, match="folder/file"):
        read(storage, f"{root}/folder/file")


def test_what_was_deleted_is_gone_and_may_be_again(place):
    storage, root = place
    for name in "abc":
        storage.write(f"{root}/{name}", [b"1"])
    storage.delete([f"{root}/a", f"{root}/b", f"{root}/never there"])
    storage.delete([f"{root}/a"])
    assert storage.list(root) == {"c": 1}


def test_what_is_published_is_new(place):
    storage, root = place
    storage.publish(f"{root}/one/file", b"first")
    storage.publish(f"{root}/one/file", b"first")
    for name in ("file", "other"):
        with pytest.raises(AlreadyThere, match="one"):
            storage.publish(f"{root}/one/{name}", b"second")
    assert read(storage, f"{root}/one/file") == b"first"
    assert storage.list(root) == {"one/file": 5}
    storage.delete([f"{root}/one/file"])
    storage.publish(f"{root}/one/other", b"second")
    assert storage.list(root) == {"one/other": 6}


def breaks_off():
    yield b"half"
    raise KeyError


def test_an_error_of_what_is_to_be_written_is_told_as_it_is(place):
    storage, root = place
    with pytest.raises(KeyError):
        storage.write(f"{root}/file", breaks_off())


# --- disks ------------------------------------------------------------------------------------


def test_nothing_is_left_on_disk_of_what_was_broken_off(storage, tmp_path):
    storage.write(f"{tmp_path}/file", [b"old"])
    with pytest.raises(KeyError):
        storage.write(f"{tmp_path}/file", breaks_off())
    assert storage.list(str(tmp_path)) == {"file": 3}


@pytest.mark.parametrize("call", ["fsync", "replace", "rename"])
def test_a_full_disk_is_an_error_that_names_the_file(storage, tmp_path, monkeypatch, call):
    def full(*arguments, **named):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    act = (
        (lambda: storage.publish(f"{tmp_path}/folder/file", b"data"))
        if call == "rename"
        else (lambda: storage.write(f"{tmp_path}/file", [b"data"]))
    )
    with pytest.raises(CheckpointFailed, match=r"file cannot be written: .*No space left"):
        act()
    assert os.listdir(tmp_path) == []


def test_a_disk_that_moves_a_folder_into_another_is_no_place_to_publish(
    storage, tmp_path, monkeypatch
):
    monkeypatch.setattr(os, "rename", lambda part, path: os.replace(part, f"{path}-elsewhere"))
    with pytest.raises(CheckpointFailed, match="folder/file cannot be written"):
        storage.publish(f"{tmp_path}/folder/file", b"data")


def test_folders_that_are_empty_go_with_their_files(storage, tmp_path):
    for name in ("a", "b"):
        storage.write(f"{tmp_path}/folder/{name}", [b"1"])
    storage.delete([f"{tmp_path}/folder/a"])
    assert storage.list(str(tmp_path)) == {"folder/b": 1}
    storage.delete([f"{tmp_path}/folder/b"])
    assert os.listdir(tmp_path) == []
    storage.write(f"{tmp_path}/folder/a", [b"1"])
    assert storage.list(str(tmp_path)) == {"folder/a": 1}


def test_a_folder_that_is_none_is_an_error(storage, tmp_path):
    (tmp_path / "file").touch()
    for act in (
        lambda: storage.list(f"{tmp_path}/file"),
        lambda: storage.write(f"{tmp_path}/file/below", [b""]),
        lambda: storage.publish(f"{tmp_path}/file/below", b""),
        lambda: storage.delete([str(tmp_path)]),
        lambda: read(storage, str(tmp_path)),
    ):
        with pytest.raises(CheckpointFailed, match=str(tmp_path)):
            act()


def test_of_many_who_publish_one_is_told_that_it_did(storage, tmp_path):
    start = threading.Barrier(8)
    told = []

    def publish(who):
        start.wait(30)
        try:
            storage.publish(f"{tmp_path}/folder/{who}", b"%d" % who)
            told.append(b"%d" % who)
        except AlreadyThere:
            pass

    threads = [threading.Thread(target=publish, args=(who,)) for who in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [f"folder/{who.decode()}" for who in told] == list(storage.list(str(tmp_path)))
    assert os.listdir(tmp_path) == ["folder"]


KILLED = """
import os, signal, sys
from sparkdrain.checkpoints.local_storage import LocalStorage
def chunks():
    yield b"x" * 1000
    os.kill(os.getpid(), signal.SIGKILL)
LocalStorage().write(sys.argv[1], chunks())
"""


def test_a_writer_that_is_killed_leaves_the_file_as_it_was(storage, tmp_path):
    storage.write(f"{tmp_path}/000001-000000001-x", [b"old"])
    path = os.pathsep.join(sys.path)
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, f"{tmp_path}/000001-000000001-x"],
        env={**os.environ, "PYTHONPATH": path},
        check=False,
        timeout=100,
    )
    assert ended.returncode < 0
    left = storage.list(str(tmp_path))
    assert left.pop("000001-000000001-x") == 3
    (part,) = left
    assert part.startswith("000001-000000001-x.")
    assert part.endswith(".part")


class Calls:
    """What the system is asked for that has to be in order for a file to survive the machine."""

    def __init__(self, monkeypatch):
        self.made = []
        for name in ("link", "replace", "rename", "mkdir"):
            monkeypatch.setattr(os, name, self._noting(name, getattr(os, name)))
        fsync = os.fsync

        def sync(descriptor):
            fsync(descriptor)
            self.made.append(("sync", os.readlink(f"/proc/self/fd/{descriptor}")))

        monkeypatch.setattr(os, "fsync", sync)

    def _noting(self, name, call):
        def noted(*arguments, **named):
            call(*arguments, **named)
            self.made.append((name, *map(str, arguments[:2])))

        return noted

    def before_and_after(self, path):
        """What was synced before a file had its name, and after."""
        (at,) = [n for n, call in enumerate(self.made) if call[0] != "sync" and call[-1] == path]
        part = self.made[at][1]
        synced = [
            [call[1] for call in calls if call[0] == "sync"]
            for calls in (self.made[:at], self.made[at:])
        ]
        return part in synced[0], os.path.dirname(path) in synced[1]

    def was_published(self, path):
        """Whether a file, and its name, were on disk before its folder had its name, and that."""
        folder, name = os.path.split(path)
        (at,) = [n for n, call in enumerate(self.made) if call[0] == "rename"]
        _, part, to = self.made[at]
        before = [call[1] for call in self.made[:at] if call[0] == "sync"]
        after = [call[1] for call in self.made[at:] if call[0] == "sync"]
        content = before.index(f"{part}/{name}")
        return to == folder and part in before[content:] and os.path.dirname(folder) in after

    def folders_without_sync(self):
        """Folders that were made, and whose names may be lost."""
        synced = {call[1] for call in self.made if call[0] == "sync"}
        return [c[1] for c in self.made if c[0] == "mkdir" and os.path.dirname(c[1]) not in synced]


@pytest.mark.parametrize("how", ["chunks", "shared", "copied"])
def test_what_was_written_survives_the_machine(storage, tmp_path, monkeypatch, how):
    """The content is on disk before the file has its name, and the name before it is told."""
    source = tmp_path / "source"
    source.write_bytes(b"content")
    path = f"{tmp_path}/job/folder/file"
    if how == "copied":
        refuse(monkeypatch, "link", errno.EXDEV)
    calls = Calls(monkeypatch)
    chunks = [b"con", b"tent"]
    storage.write(path, chunks if how == "chunks" else LocalFile(source, lambda: None))
    assert read(storage, path) == b"content"
    assert calls.before_and_after(path) == (True, True)
    assert len([call for call in calls.made if call[0] == "mkdir"]) == 2
    assert calls.folders_without_sync() == []


def test_what_was_published_survives_the_machine(storage, tmp_path, monkeypatch):
    calls = Calls(monkeypatch)
    storage.publish(f"{tmp_path}/job/manifests/1/file", b"content")
    assert read(storage, f"{tmp_path}/job/manifests/1/file") == b"content"
    assert calls.was_published(f"{tmp_path}/job/manifests/1/file")
    assert calls.folders_without_sync() == []


def test_what_is_settled_survives_the_machine(storage, tmp_path, monkeypatch):
    """Its writer may have died between the rename and the sync."""
    path = tmp_path / "job/manifests/1/file"
    storage.publish(str(path), b"content")
    calls = Calls(monkeypatch)
    storage.settle(str(path))
    folders = [("sync", str(folder)) for folder in path.parents]
    assert calls.made[:4] == folders[:4]
    monkeypatch.setattr(os, "fsync", lambda descriptor: os.close(-1))
    with pytest.raises(CheckpointFailed, match=r"file may not survive a loss of power: .*Bad file"):
        storage.settle(str(path))
    storage.delete([str(path)])
    with pytest.raises(FileMissing, match="file is missing"):
        storage.settle(str(path))


def copy_less(monkeypatch, sizes):
    """The system copies so many bytes at a time, then says that there is nothing more."""
    refuse(monkeypatch, "link", errno.EXDEV)
    sizes = iter(sizes)

    def copy(source, target, count):
        del count
        return os.write(target, os.read(source, next(sizes, 0)))

    monkeypatch.setattr(os, "copy_file_range", copy)


def test_a_copy_that_the_system_breaks_off_is_an_error(storage, tmp_path, monkeypatch):
    copy_less(monkeypatch, [3])
    (tmp_path / "source").write_bytes(b"content")
    with pytest.raises(CheckpointFailed, match="copied but for its last 4 bytes"):
        storage.write(f"{tmp_path}/file", LocalFile(tmp_path / "source", lambda: None))
    assert storage.list(str(tmp_path)) == {"source": 7}


def test_a_file_that_the_system_says_is_empty_is_read(storage, tmp_path, monkeypatch):
    copy_less(monkeypatch, [])
    (tmp_path / "source").write_bytes(b"content")
    storage.write(f"{tmp_path}/file", LocalFile(tmp_path / "source", lambda: None))
    assert read(storage, f"{tmp_path}/file") == b"content"


# --- object stores ----------------------------------------------------------------------------


def test_an_object_store_that_refuses_is_an_error_that_names_the_path(objects):
    storage = storage_at("kept://bucket")
    storage.write("kept://bucket/a", [b"1"])
    objects.FAULTS.append(OSError("no route"))
    for act in (
        lambda: storage.list("kept://bucket"),
        lambda: storage.write("kept://bucket/a", [b""]),
        lambda: storage.publish("kept://bucket/a", b""),
        lambda: storage.delete(["kept://bucket/a"]),
        lambda: read(storage, "kept://bucket/a"),
    ):
        with pytest.raises(CheckpointFailed, match=r"kept://bucket.*no route"):
            act()


def test_a_file_system_that_beam_does_not_know_is_an_error():
    with pytest.raises(CheckpointFailed, match="nowhere://x"):
        storage_at("nowhere://x").list("nowhere://x")
