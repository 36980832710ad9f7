from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparkdrain.coordination.backends.file import (
    DamagedFile,
    FileStore,
    decode,
    encode,
    file_name,
)
from sparkdrain.coordination.metadata import ABSENT, CorruptRecord, StoreDown, Versioned
from tests.support.store_contract import value_of, values_of


@pytest.fixture
def store(tmp_path):
    return FileStore(tmp_path / "store")


def only_file(tmp_path):
    (path,) = (tmp_path / "store" / "a").iterdir()
    return path


@given(st.text(min_size=1), st.binary(), st.text())
def test_a_record_is_read_back_unchanged(key, value, version):
    assert decode(encode(key, value, version)) == (key, Versioned(value, version))


OF_A_RELEASE_BEFORE_VERSIONS = (
    b'sparkdrain-metadata 1 {"key": "k", "size": 5, "sha256": '
    b'"580f6331980a122caae4050182ead7b43ad3e0e1288834c4877b9e45573ec353"}\nvalue'
)


def test_a_record_of_a_release_before_versions_is_read_and_can_be_replaced(store, tmp_path):
    path = tmp_path / "store" / "a" / file_name("k")
    path.parent.mkdir()
    path.write_bytes(OF_A_RELEASE_BEFORE_VERSIONS)
    found = store.get("a", "k")
    assert found.value == b"value"
    assert store.all("a") == {"k": found}
    assert store.put("a", "k", b"new", "another") is None
    assert store.put("a", "k", b"new", found.version) is not None
    assert store.put("a", "k", b"newer", found.version) is None


def test_a_release_before_versions_reads_a_record_that_has_one():
    line, _, value = encode("k", b"value", "v").partition(b"\n")
    head = json.loads(line.removeprefix(b"sparkdrain-metadata 1 "))
    old = json.loads(OF_A_RELEASE_BEFORE_VERSIONS.partition(b"\n")[0][22:])
    assert {name: head[name] for name in old} == old
    assert value == b"value"


@given(st.text(min_size=1, max_size=5), st.binary(max_size=20), st.data())
def test_a_record_with_any_byte_changed_cut_or_added_is_not_believed(key, value, data):
    whole = encode(key, value, "7f00")
    at = data.draw(st.integers(0, len(whole) - 1))
    other = whole[at] ^ data.draw(st.integers(1, 255))
    changed = [whole[:at] + bytes([other]) + whole[at + 1 :], whole[:at], whole + b"x"]
    for damaged in changed:
        try:
            read = decode(damaged)
        except DamagedFile:
            continue
        # Of the JSON in the first line a few bytes carry nothing, as spaces do.
        assert read == (key, Versioned(value, "7f00"))
        assert damaged == changed[0]


def test_a_record_whose_key_has_changed_is_not_believed():
    whole = encode("a key", b"value", "v")
    assert whole.count(b"a key") == 1
    with pytest.raises(DamagedFile, match="checksum"):
        decode(whole.replace(b"a key", b"b key"))


@example("a", "A")
@example("k" * 200 + "a", "k" * 200 + "b")
@given(st.text(min_size=1), st.text(min_size=1))
def test_different_keys_have_different_files_also_where_case_is_ignored(one, other):
    assert (file_name(one).lower() == file_name(other).lower()) == (one == other)
    assert len(file_name(one)) < 200
    assert "/" not in file_name(one)


def test_a_damaged_file_is_named_and_hides_no_other_record(store, tmp_path):
    store.put("a", "bad", b"value")
    path = only_file(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    store.put("a", "good", b"1")
    for act in (
        lambda: store.get("a", "bad"),
        lambda: store.all("a"),
        lambda: store.put("a", "bad", b"", ABSENT),
        lambda: store.remove("a", "bad", ABSENT),
    ):
        with pytest.raises(CorruptRecord) as caught:
            act()
        assert str(path) in str(caught.value)
        assert "has 4 bytes instead of 5" in str(caught.value)
    heard = []
    assert values_of(store, "a", on_corrupt=heard.append) == {"good": b"1"}
    # A record that is left out is not read.
    assert values_of(store, "a", without={"bad"}) == {"good": b"1"}
    assert [str(path) in str(error) for error in heard] == [True]
    store.remove("a", "bad")
    assert values_of(store, "a") == {"good": b"1"}
    store.put("a", "bad", b"again")
    assert value_of(store, "a", "bad") == b"again"


def test_a_file_under_the_name_of_another_record_is_not_believed(store, tmp_path):
    store.put("a", "one", b"1")
    only_file(tmp_path).rename(tmp_path / "store" / "a" / file_name("two"))
    with pytest.raises(CorruptRecord, match="holds the record of 'one'"):
        store.get("a", "two")


def test_what_a_crashed_writer_left_is_no_record_and_is_cleared_away(store, tmp_path):
    store.put("a", "k", b"1")
    left = tmp_path / "store" / "a" / "0123.unfinished"
    left.write_bytes(b"half")
    assert values_of(store, "a") == {"k": b"1"}
    assert values_of(FileStore(tmp_path / "store"), "a") == {"k": b"1"}
    assert not left.exists()


def test_a_write_that_fails_leaves_the_record_as_it_was(store, tmp_path, monkeypatch):
    store.put("a", "k", b"before")
    path = only_file(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreDown, match=r"store.* No space left"):
            store.put("a", "k", b"after")
    assert value_of(store, "a", "k") == b"before"
    assert list(path.parent.iterdir()) == [path]


@pytest.fixture
def made(monkeypatch):
    """What the system was asked for, in order, that decides what a crash of the machine leaves."""
    calls = []

    def note(name, call):
        def noted(*arguments, **named):
            call(*arguments, **named)
            calls.append((name, *(os.fspath(a) for a in arguments if not isinstance(a, int))))

        return noted

    for name in ("replace", "mkdir", "unlink"):
        monkeypatch.setattr(os, name, note(name, getattr(os, name)))
    fsync = os.fsync

    def sync(descriptor):
        fsync(descriptor)
        calls.append(("sync", os.readlink(f"/proc/self/fd/{descriptor}")))

    monkeypatch.setattr(os, "fsync", sync)
    return calls


def test_what_was_written_survives_the_machine(store, tmp_path, made):
    """The content is on disk before the record is replaced, and the names before it is told."""
    root = str(tmp_path / "store")
    store.put("a", "k", b"1")
    (replaced,) = [call for call in made if call[0] == "replace"]
    assert made == [
        ("mkdir", f"{root}/a"),
        ("sync", root),
        ("sync", replaced[1]),
        replaced,
        ("sync", f"{root}/a"),
    ]


def test_what_was_removed_stays_so_after_the_machine_has_crashed(store, tmp_path, made):
    store.put("a", "k", b"1")
    path = str(only_file(tmp_path))
    made.clear()
    store.remove("a", "k")
    assert made == [("unlink", path), ("sync", os.path.dirname(path))]


def test_a_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreDown, match=str(tmp_path / "file")):
        FileStore(tmp_path / "file" / "store")


def test_a_store_that_is_taken_away_is_down_or_empty_and_comes_back(store, tmp_path):
    store.put("a", "k", b"1")
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    (tmp_path / "store").write_text("in the way")
    with pytest.raises(StoreDown):
        store.get("a", "k")
    with pytest.raises(StoreDown):
        store.put("a", "k", b"2")
    (tmp_path / "store").unlink()
    (tmp_path / "elsewhere").rename(tmp_path / "store")
    assert value_of(store, "a", "k") == b"1"


COUNT = """
import sys
from pathlib import Path
from sparkdrain.coordination.backends.file import FileStore
store = FileStore(Path(sys.argv[1]))
for _ in range(25):
    while True:
        before = store.get("counts", "n")
        value, version = (b"0", "") if before is None else (before.value, before.version)
        if store.put("counts", "n", b"%d" % (int(value) + 1), version):
            break
    store.put("all", f"{sys.argv[2]}-{value}", b"")
"""


def test_processes_that_count_together_lose_no_step(tmp_path):
    command = [sys.executable, "-c", COUNT, str(tmp_path / "store")]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = [subprocess.Popen([*command, str(n)], env=environ) for n in range(3)]
    assert [process.wait(100) for process in running] == [0, 0, 0]
    store = FileStore(tmp_path / "store")
    assert value_of(store, "counts", "n") == b"75"
    assert len(store.all("all")) == 75


KILLED = """
import os, sys
from pathlib import Path
from sparkdrain.coordination.backends.file import FileStore
store = FileStore(Path(sys.argv[1]))
store.put("a", "k", b"kept")
os.fsync = lambda descriptor: os.kill(os.getpid(), 9)
store.put("a", "k", b"lost")
"""


def test_a_writer_that_is_killed_leaves_the_old_record_and_no_lock(tmp_path):
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "store")],
        env=environ,
        timeout=100,
        check=False,
    )
    assert done.returncode == -9
    store = FileStore(tmp_path / "store")
    assert values_of(store, "a") == {"k": b"kept"}
    store.put("a", "k", b"next")
    assert value_of(store, "a", "k") == b"next"


def test_keys_whose_file_names_begin_alike_are_told_apart(store):
    store.put("a", "b", b"its file is called b-...")
    assert store.all("a", prefix="b-") == {}
    store.put("a", "k" * 200 + "x", b"its name is cut")
    assert store.all("a", prefix="k" * 200 + "y") == {}
    assert set(store.all("a", prefix="k" * 200 + "x")) == {"k" * 200 + "x"}
