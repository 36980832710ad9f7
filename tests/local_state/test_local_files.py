"""A file of the folder is given byte for byte, or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
from typing import TYPE_CHECKING

import pytest

from sparkdrain.local_state.files import FileContent, LocalFiles

if TYPE_CHECKING:
    from pathlib import Path

DATA = b"some rows of state" * 1000


def of(data: bytes) -> FileContent:
    return FileContent(hashlib.sha256(data).hexdigest(), len(data))


@pytest.fixture
def files(tmp_path):
    (tmp_path / "files").mkdir()
    return LocalFiles(tmp_path / "files")


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "000001.sst"
    path.write_bytes(DATA)
    return path


def quiet() -> None:
    pass


@pytest.mark.parametrize("link", [True, False])
def test_what_was_kept_is_given(files, source, tmp_path, link):
    content = of(DATA)
    assert not files.has(content)
    assert not files.give(content, tmp_path / "to", link=link, moved=quiet)
    assert not (tmp_path / "to").exists()
    files.keep(content, source, link=link, moved=quiet)
    assert files.has(content)
    assert files.give(content, tmp_path / "to", link=link, moved=quiet)
    assert (tmp_path / "to").read_bytes() == DATA
    assert (tmp_path / "to").samefile(source) == link


def test_a_table_takes_no_room(files, source):
    files.keep(of(DATA), source, link=True, moved=quiet)
    assert source.stat().st_nlink == 2


def test_on_another_disk_it_is_a_copy(files, source, tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, "another disk")

    monkeypatch.setattr(os, "link", refuse)
    files.keep(of(DATA), source, link=True, moved=quiet)
    assert source.stat().st_nlink == 1
    assert files.give(of(DATA), tmp_path / "to", link=True, moved=quiet)
    assert (tmp_path / "to").read_bytes() == DATA


def put(files: LocalFiles, how: str, tmp_path: Path) -> None:
    path = files.folder / of(DATA).digest
    other = tmp_path / "other"
    match how:
        case "torn":
            path.write_bytes(DATA[:-1])
        case "another byte":
            path.write_bytes(b"S" + DATA[1:])
        case "zeros":
            path.write_bytes(bytes(len(DATA)))
        case "longer":
            path.write_bytes(DATA + b"x")
        case "empty":
            path.touch()
        case "a folder":
            path.mkdir()
            (path / "in it").touch()
        case "a link":
            other.write_bytes(DATA)
            path.symlink_to(other)
        case "a link to nowhere":
            path.symlink_to(tmp_path / "nowhere")
        case "a pipe":
            os.mkfifo(path)


HOWS = [
    "torn", "another byte", "zeros", "longer", "empty", "a folder", "a link",
    "a link to nowhere", "a pipe",
]  # fmt: skip


@pytest.mark.parametrize("link", [True, False])
@pytest.mark.parametrize("how", HOWS)
def test_what_is_damaged_is_not_given_and_is_kept_anew(files, source, tmp_path, how, link):
    put(files, how, tmp_path)
    assert not files.give(of(DATA), tmp_path / "to", link=link, moved=quiet)
    assert not os.path.lexists(tmp_path / "to")
    files.keep(of(DATA), source, link=link, moved=quiet)
    assert files.give(of(DATA), tmp_path / "to", link=link, moved=quiet)
    assert (tmp_path / "to").read_bytes() == DATA


def test_a_file_of_another_user_is_not_given(files, source, tmp_path, monkeypatch):
    files.keep(of(DATA), source, link=True, moved=quiet)
    monkeypatch.setattr(os, "geteuid", lambda: source.stat().st_uid + 1)
    assert not files.give(of(DATA), tmp_path / "to", link=True, moved=quiet)
    assert not (tmp_path / "to").exists()


def test_a_copy_that_ends_early_leaves_nothing(files, source, tmp_path):
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.keep(of(DATA), source, link=False, moved=stop)
    assert not list(files.folder.iterdir())
    files.keep(of(DATA), source, link=False, moved=quiet)
    with pytest.raises(KeyboardInterrupt):
        files.give(of(DATA), tmp_path / "to", link=False, moved=stop)
    assert not (tmp_path / "to").exists()
    assert files.has(of(DATA))


def test_a_name_that_leads_elsewhere_is_none_of_ours(files, source, tmp_path):
    wrong = FileContent("../000001.sst", len(DATA))
    assert not files.has(wrong)
    assert not files.give(wrong, tmp_path / "to", link=True, moved=quiet)
    with pytest.raises(FileNotFoundError):
        files.keep(wrong, source, link=True, moved=quiet)
