"""``sparkdrain checkpoints`` shows what is there, and finds every byte that is not what it was."""

from __future__ import annotations

import io
import os

import pytest
from rich.console import Console

from sparkdrain.checkpoints.lease import claim
from sparkdrain.checkpoints.local_storage import LocalStorage
from sparkdrain.checkpoints.manifest import Manifest, ShardState
from sparkdrain.checkpoints.paths import Paths
from sparkdrain.checkpoints.publish import publish
from sparkdrain.checkpoints.upload import Bringer, Destination
from sparkdrain.cli import checkpoints
from sparkdrain.cli.main import main
from timers_state import Domain, Overlay, RoundStore

STORAGE = LocalStorage()


def make(root, job, numbers, directory):
    """Checkpoints of a job, each with one table more."""
    paths = Paths(str(root), job)
    lease = claim(STORAGE, paths, "token", "a test")
    bringer = Bringer(Destination(STORAGE, paths, lease.epoch, 1, 0))
    for number in numbers:
        snapshot = directory / f"{job.replace('/', '')}-{number}"
        snapshot.mkdir()
        for table in range(number):
            (snapshot / f"{table}.sst").write_bytes(b"table %d " % table * 1000)
        files, _ = bringer.bring(number, snapshot, lambda: None)
        shard = ShardState(1, 0, files)
        made = 1_700_000_000_000_000
        state = {"Count/sums": "value, VarIntCoder"}
        publish(
            lease, Manifest(job, "run-1", lease.epoch, number, 42, made, state, 1, (shard,), b"12")
        )
    return paths


@pytest.fixture
def kept(tmp_path):
    make(tmp_path / "kept", "orders/today", [1, 2], tmp_path)
    make(tmp_path / "kept", "visits", [5], tmp_path)
    return tmp_path / "kept"


@pytest.fixture
def ask(monkeypatch):
    """Runs the command; the exit code, and what it prints."""

    def run(*arguments):
        printed = io.StringIO()
        monkeypatch.setattr(checkpoints, "Console", lambda: Console(file=printed, width=200))
        return main(["checkpoints", *map(str, arguments)]), printed.getvalue()

    return run


def test_list_has_a_line_for_each_checkpoint_the_newest_of_a_job_first(kept, ask):
    code, printed = ask("list", kept)
    assert code == 0
    lines = [line for line in printed.splitlines() if "2023-11-14 22:13:20 UTC" in line]
    assert [("orders/today" in line, "000001-00000000" in line) for line in lines] == [
        (True, True),
        (True, True),
        (False, True),
    ]
    assert "000001-000000002" in lines[0]
    assert "16,000" in lines[0]
    assert "42" in lines[0]


def test_a_folder_of_one_job_will_do(kept, ask):
    code, printed = ask("list", kept / "orders%2Ftoday")
    assert code == 0
    assert "orders/today" in printed
    assert "visits" not in printed


def test_a_job_and_a_number_can_be_named(kept, ask):
    _, printed = ask("list", kept, "--job", "orders/today", "--number", "1")
    assert "000001-000000001" in printed
    assert "000001-000000002" not in printed


def test_verify_reads_every_byte(kept, ask):
    code, printed = ask("verify", kept)
    assert code == 0
    assert printed.splitlines()[0] == "ok orders/today 000001-000000002: 2 files, 16,000 bytes"
    damaged = max((kept / "visits" / "files").iterdir())
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    assert ask("list", kept)[0] == 0
    code, printed = ask("verify", kept)
    assert code == 1
    assert "damaged visits 000001-000000005: 4 files" in printed
    assert f"{damaged} is damaged: its 8000 bytes are not those that were written" in printed


def test_what_is_missing_or_truncated_is_seen_without_reading_it(kept, ask):
    first, second, *_ = sorted((kept / "visits" / "files").iterdir())
    first.unlink()
    second.write_bytes(b"short")
    code, printed = ask("list", kept)
    assert code == 1
    assert f"{first.name} is missing" in printed
    assert f"{second.name} has 5 bytes instead of 8000" in printed
    assert ask("list", kept, "--job", "orders/today")[0] == 0


def test_a_manifest_that_cannot_be_read_is_shown_as_such(kept, ask):
    manifest = kept / "visits" / "manifests" / "000000001" / "000001-000000005.manifest"
    manifest.write_bytes(manifest.read_bytes()[:-10])
    for question in ("list", "verify", "inspect"):
        code, printed = ask(question, kept)
        assert code == 1
        assert f"{manifest} is damaged: its checksum does not fit" in printed
    manifest.write_bytes(b"sparkdrain checkpoint, format 99\nanything")
    assert "format 99; this release reads formats up to 1" in ask("list", kept)[1]


def test_inspect_tells_what_the_newest_checkpoint_of_each_job_holds(kept, ask):
    code, printed = ask("inspect", kept)
    assert code == 0
    assert "orders/today, checkpoint 000001-000000002" in printed
    assert "000001-000000001" not in printed
    assert "visits, checkpoint 000001-000000005" in printed
    assert "made 2023-11-14 22:13:20 UTC by run run-1, after round 42; 1 slots" in printed
    assert "VarIntCoder" in printed
    (shard,) = [line for line in printed.splitlines() if "16,000" in line]
    assert "8,000" in shard  # what was brought for this one


def test_inspect_counts_the_contents_of_state_if_it_is_told_to(tmp_path, ask):
    paths = Paths(str(tmp_path / "kept"), "job")
    with Overlay(RoundStore(tmp_path / "live"), 1 << 20) as overlay:
        for key in (b"a", b"b"):
            scope = overlay.scope(31, key)
            scope.value(b"count").set(b"12345")
            scope.timers(Domain.EVENT).set(7, b"alarm", b"1")
            scope.timers(Domain.EVENT).set(7, b"alarm", b"2")
        overlay.prepare()
        overlay.commit()
        overlay.snapshot(tmp_path / "snapshot")
    lease = claim(STORAGE, paths, "token", "a test")
    files, _ = Bringer(Destination(STORAGE, paths, 1, 2, 3)).bring(
        1, tmp_path / "snapshot", lambda: None
    )
    shard = ShardState(2, 3, files)
    publish(lease, Manifest("job", "run", lease.epoch, 1, 1, 0, {}, 4, (shard,)))
    code, printed = ask("inspect", paths.root, "--contents")
    assert code == 0
    rows = [line.strip("│").replace("│", " ").split() for line in printed.splitlines()]
    assert ["2", "3", "1f", "value", "count", "2", "2", "10"] in rows
    assert ["2", "3", "1f", "event", "timer", "alarm", "2", "4", "32"] in rows
    os.unlink(paths.file(max(file.path for file in files)))
    code, printed = ask("inspect", paths.root, "--contents")
    assert code == 1
    assert "is missing" in printed


def test_a_folder_without_checkpoints_is_an_error(tmp_path, ask):
    code, printed = ask("list", tmp_path / "nothing")
    assert code == 1
    assert "There is no checkpoint in" in printed


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path, ask):
    (tmp_path / "file").touch()
    code, printed = ask("list", tmp_path / "file")
    assert code == 1
    assert "cannot be listed" in printed


def test_a_question_is_needed(capsys):
    with pytest.raises(SystemExit):
        main(["checkpoints"])
    assert "question" in capsys.readouterr().err
