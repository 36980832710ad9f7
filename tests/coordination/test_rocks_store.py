from __future__ import annotations

import os
import subprocess
import sys

import pytest
from rocksdict import Options, Rdict

from sparkdrain.coordination.address import parse
from sparkdrain.coordination.backends.rocksdb import RocksDatabase
from sparkdrain.coordination.metadata import StoreDown
from sparkdrain.coordination.stores import Stores
from sparkdrain.errors import BadSetup
from tests.support.store_contract import StoreOfKind, values_of

OPEN = """
import sys
from sparkdrain.coordination.address import parse
from sparkdrain.coordination.stores import STORES
from sparkdrain.errors import BadSetup
try:
    STORES.open(parse(sys.argv[1])).put("a", "other", b"1")
except BadSetup as error:
    print(error)
"""


def rocks(folder) -> StoreOfKind:
    return StoreOfKind(f"rocksdb:{folder}/store")


def in_another_process(address: str) -> str:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", OPEN, address],
        env=environ,
        timeout=100,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def test_a_second_process_is_told_who_may_and_may_when_the_first_has_let_go(tmp_path):
    backend = rocks(tmp_path)
    first, second = backend.open(), backend.open()
    first.put("a", "own", b"1")
    told = in_another_process(f"rocksdb:{tmp_path}/store")
    assert f"{tmp_path}/store is open in another process" in told
    assert "use a store of the kind 'file:'" in told
    first.close()
    assert "is open in another process" in in_another_process(f"rocksdb:{tmp_path}/store")
    second.close()
    assert in_another_process(f"rocksdb:{tmp_path}/store") == ""
    third = backend.open()
    assert values_of(third, "a") == {"own": b"1", "other": b"1"}
    third.close()


def test_one_directory_under_two_names_is_one_store(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    stores = Stores()
    one = stores.open(parse(f"rocksdb:{tmp_path}/store"))
    other = stores.open(parse(f"rocksdb:{tmp_path}/link/store"))
    one.put("a", "k", b"1")
    assert other.get("a", "k").value == b"1"
    one.close()
    other.close()


def test_a_damaged_database_is_named(tmp_path):
    backend = rocks(tmp_path)
    backend.open().close()
    (tmp_path / "store" / "CURRENT").write_text("garbage")
    with pytest.raises(BadSetup, match=rf"{tmp_path}/store is damaged"):
        backend.open()


def test_a_database_of_something_else_is_left_alone(tmp_path):
    db = Rdict(str(tmp_path / "store"), options=Options(raw_mode=True))
    db.put(b"mine", b"1")
    db.close()
    with pytest.raises(BadSetup, match="is no metadata store"):
        rocks(tmp_path).open()
    db = Rdict(str(tmp_path / "store"), options=Options(raw_mode=True))
    assert dict(db.items()) == {b"mine": b"1"}
    db.close()


def test_a_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadSetup, match=f"{tmp_path}/file/store cannot be opened"):
        Stores().open(parse(f"rocksdb:{tmp_path}/file/store"))


class Watched:
    """A database, and whether each change of it was synced."""

    def __init__(self, db):
        self._db = db
        self.synced = []

    def __getattr__(self, name):
        return getattr(self._db, name)

    def put(self, row, value, write_opt=None):
        self.synced.append(write_opt is not None and write_opt.sync)
        self._db.put(row, value, write_opt=write_opt)

    def delete(self, row, write_opt=None):
        self.synced.append(write_opt is not None and write_opt.sync)
        self._db.delete(row, write_opt=write_opt)


def test_every_change_is_synced_before_it_is_told(tmp_path):
    store = rocks(tmp_path).open()
    watched = store._database.db = Watched(store._database.db)
    store.put("a", "k", b"1")
    version = store.put("a", "k", b"2", store.get("a", "k").version)
    assert store.remove("a", "k", version)
    store.put("a", "k", b"3")
    store.remove("a", "k")
    assert watched.synced == [True] * 5
    store.close()


def test_a_database_that_fails_is_told_as_down(tmp_path):
    store = rocks(tmp_path).open()
    store._database.db.close()
    with pytest.raises(StoreDown, match=f"{tmp_path}/store cannot be used now"):
        store.put("a", "k", b"")


def test_a_store_that_cannot_be_begun_on_a_full_disk_says_so(tmp_path, monkeypatch):
    def full(self):
        message = "IO error: No space left on device: While appending to file"
        raise Exception(message)

    monkeypatch.setattr(RocksDatabase, "_check_format", full)
    with pytest.raises(BadSetup, match=rf"{tmp_path}/store cannot be opened: .*No space left"):
        RocksDatabase(tmp_path / "store")


def test_a_database_of_a_release_before_versions_is_read_and_gets_them(tmp_path):
    db = Rdict(str(tmp_path / "store"), options=Options(raw_mode=True))
    for row, value in (
        (b"\x00format", b"sparkdrain-metadata 1"),
        (b"a\x00k", b"1"),
        (b"a\x00l", b""),
    ):
        db.put(row, value)
    db.close()
    backend = rocks(tmp_path)
    for _ in range(2):  # a row gets a version once
        store = backend.open()
        assert values_of(store, "a") == {"k": b"1", "l": b""}
        versions = {each.version for each in store.all("a").values()}
        assert len(versions) == 2
        store.close()
    store = backend.open()
    assert versions == {each.version for each in store.all("a").values()}
    assert store.put("a", "k", b"2", store.get("a", "k").version) is not None
    store.close()


def test_a_database_of_a_later_release_is_left_alone(tmp_path):
    db = Rdict(str(tmp_path / "store"), options=Options(raw_mode=True))
    db.put(b"\x00format", b"sparkdrain-metadata 3")
    db.close()
    with pytest.raises(BadSetup, match="one of a release that this one does not know"):
        rocks(tmp_path).open()
