"""``sparkdrain prepare`` leaves class data that Java takes, or nothing."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from sparkdrain.cli import prepare
from sparkdrain.cli.main import main
from sparkdrain.stages.cluster.class_data import class_data_file, using_class_data

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def ask(tmp_path):
    """Runs the command; the exit code, and what it prints."""

    def run():
        printed = io.StringIO()
        code = prepare.prepare(
            console=Console(file=printed, width=80), directory=tmp_path / "share"
        )
        return code, printed.getvalue()

    return run


def test_what_the_rehearsal_has_written_comes_to_its_place_whole(ask, monkeypatch, tmp_path):
    place = class_data_file(os.environ, tmp_path / "share")

    def rehearse(written: Path) -> None:
        assert not place.exists()
        written.write_bytes(b"classes")

    monkeypatch.setattr(prepare, "_rehearse", rehearse)
    code, printed = ask()
    assert code == 0
    assert str(place) in printed
    assert place.read_bytes() == b"classes"
    assert list(place.parent.iterdir()) == [place]


def test_where_nothing_was_written_there_is_nothing_and_the_output_tells_why(
    ask, monkeypatch, tmp_path
):
    printed_by_java = 'openjdk version "17.0.9"\nno room left'
    monkeypatch.setattr(prepare, "_printed", lambda command: printed_by_java)
    code, printed = ask()
    assert code == 1
    assert "no room left" in printed
    assert list((tmp_path / "share").iterdir()) == []


def test_a_place_that_cannot_be_written_to_is_named(ask, tmp_path):
    (tmp_path / "share").touch()
    code, printed = ask()
    assert code == 1
    assert str(tmp_path / "share") in printed


def test_without_java_it_says_what_to_do(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main(["prepare"]) == 1
    assert "JAVA_HOME is" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.spark
def test_java_takes_sparks_classes_from_what_was_written(ask, python, tmp_path):
    code, printed = ask()
    assert code == 0, printed
    options = using_class_data(os.environ, tmp_path / "share")
    log = tmp_path / "classes"
    ended = python("-m", "sparkdrain.cli.prepare", f"{options} -Xlog:class+load:file={log}")
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
    submit = "org.apache.spark.deploy.SparkSubmit"
    assert f"{submit} source: shared objects file (top)" in log.read_text()
