"""``sparkdrain state`` lists what a host keeps, and removes what no running job needs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from sparkdrain.cli import state
from sparkdrain.cli.main import main
from sparkdrain.local_state.files import FileContent
from sparkdrain.local_state.folder import StateFolder
from sparkdrain.local_state.notes import SlotNote
from sparkdrain.local_state.slot_files import SlotFiles


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "state"


def keep(folder, tmp_path, job, slot, *names):
    files = SlotFiles(str(folder), SlotNote(job, f"/checkpoints/{job}", 1, slot))
    kept = {}
    for name in names:
        path = tmp_path / f"{name}.sst"
        path.write_bytes(name.encode() * 1000)
        kept[FileContent(name * 64, 1000)] = path
    files.keep(1, kept, lambda: None)
    assert files.wrong == ""
    return files


@pytest.fixture
def ask(monkeypatch):
    """Runs the command; the exit code, and what it prints."""

    def run(*arguments):
        printed = io.StringIO()
        monkeypatch.setattr(state, "Console", lambda: Console(file=printed, width=200))
        return main(["state", *map(str, arguments)]), printed.getvalue()

    return run


def test_each_job_has_a_line_that_says_whether_it_is_in_use(ask, folder, tmp_path):
    running = keep(folder, tmp_path, "orders", 0, "a", "b")
    keep(folder, tmp_path, "visits", 0, "b", "c").close()
    (folder / "files" / ("d" * 64)).write_bytes(b"12")
    code, printed = ask("list", folder)
    assert code == 0
    lines = {line.split()[1]: line for line in printed.splitlines() if line.startswith("│")}
    assert "/checkpoints/orders" in lines["orders"]
    assert "2,000" in lines["orders"]
    assert " in use" in lines["orders"]
    assert "not in use" in lines["visits"]
    assert "of no job" in printed
    _, printed = ask("list", folder, "--job", "visits")
    assert "orders" not in printed
    running.close()


def test_what_a_running_job_needs_is_never_removed(ask, folder, tmp_path):
    running = keep(folder, tmp_path, "orders", 0, "a", "b")
    keep(folder, tmp_path, "visits", 0, "b", "c").close()
    code, printed = ask("remove", folder)
    assert code == 0
    assert "1 files with 1,000 bytes were removed of visits. 1 slot of a job runs" in printed
    assert {path.name[0] for path in (folder / "files").iterdir()} == {"a", "b"}
    running.close()
    assert "2 files" in ask("remove", folder)[1]
    assert not list((folder / "files").iterdir())


def test_one_may_say_which_and_how_old(ask, folder, tmp_path):
    for name in "ab":
        keep(folder, tmp_path, name, 0, name).close()
    assert "0 files" in ask("remove", folder, "--days", 1)[1]
    assert "removed of a." in ask("remove", folder, "--job", "a")[1]
    assert {path.name[0] for path in (folder / "files").iterdir()} == {"b"}


def test_a_folder_without_local_state_and_one_that_is_busy_are_named(ask, folder, tmp_path):
    code, printed = ask("list", tmp_path / "nothing")
    assert code == 1
    assert "There is no local state in" in printed
    files = keep(folder, tmp_path, "orders", 0, "a")
    with StateFolder(folder).shared():
        code, printed = ask("remove", folder)
    assert code == 1
    assert "Ask again in a moment" in printed
    files.close()
