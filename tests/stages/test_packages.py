"""A job's packages are installed once, in a directory of their own."""

from __future__ import annotations

import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest

from sparkdrain.errors import BadSetup
from sparkdrain.stages.workers.packages import use_packages
from sparkdrain.stages.workers.sent_files import dependencies_of
from sparkdrain.types import Artifact

STAGING = "beam:artifact:role:staging_to:v1"
FILE = "beam:artifact:type:file:v1"


class Commands:
    """Runs nothing; remembers what it was asked, and fails where told."""

    def __init__(self, *failing: str) -> None:
        self.failing = failing
        self.asked: list[list[str]] = []

    def __call__(self, command):
        self.asked.append(list(command))
        if "venv" in command:
            version = f"python{sys.version_info.major}.{sys.version_info.minor}"
            (Path(command[-1]) / "lib" / version / "site-packages").mkdir(parents=True)
        failed = any(word in command for word in self.failing)
        return (1, f"no {command[3]}") if failed else (0, "")

    def installs(self) -> list[list[str]]:
        return [command for command in self.asked if "install" in command]


@pytest.fixture(autouse=True)
def _path(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture
def archive(tmp_path):
    def make(**files: str) -> Path:
        path = tmp_path / "packages.zip"
        with zipfile.ZipFile(path, "w") as target:
            for name, text in files.items():
                target.writestr(name.replace("__", "."), text)
        return path

    return make


def test_packages_come_in_the_order_of_beams_own_containers(archive, tmp_path):
    run = Commands()
    files = {
        "workflow__tar__gz": "",
        "extra_packages__txt": "b.whl\na.tar.gz\n",
        "b__whl": "",
        "a__tar__gz": "",
        "requirements__txt": "c==1\n",
    }
    use_packages(archive(**files), tmp_path, run)
    (install,) = run.installs()
    staged = tmp_path / "packages" / "staged"
    names = ["requirements.txt", "b.whl", "a.tar.gz", "workflow.tar.gz"]
    assert install[-5:] == ["-r", *(str(staged / name) for name in names)]
    assert "--no-index" in install


def test_the_next_process_finds_them_installed(archive, tmp_path):
    made = archive(requirements__txt="c==1\n")
    use_packages(made, tmp_path, Commands())
    again = Commands()
    use_packages(made, tmp_path, again)
    assert again.asked == []
    assert "site-packages" in sys.path[0]
    assert str(tmp_path / "packages") in sys.path[0]


def test_processes_that_come_at_the_same_time_wait_for_the_first(archive, tmp_path):
    made = archive(requirements__txt="c==1\n")
    runs = [Commands() for _ in range(4)]
    threads = [threading.Thread(target=use_packages, args=(made, tmp_path, run)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sum(bool(run.asked) for run in runs) == 1


def test_an_installation_that_was_cut_off_is_done_again(archive, tmp_path):
    made = archive(requirements__txt="c==1\n")
    with pytest.raises(BadSetup):
        use_packages(made, tmp_path, Commands("install"))
    run = Commands()
    use_packages(made, tmp_path, run)
    assert run.installs()


def test_an_index_is_asked_only_if_the_staged_files_do_not_do(archive, tmp_path):
    run = Commands("--no-index")
    use_packages(archive(requirements__txt="c==1\n"), tmp_path, run)
    first, second = run.installs()
    assert "--no-index" in first
    assert "--no-index" not in second


def test_what_pip_said_is_told(archive, tmp_path):
    with pytest.raises(BadSetup, match=r"--requirements_file(.|\n)*no install(.|\n)*an index"):
        use_packages(archive(requirements__txt="c==1\n"), tmp_path, Commands("install"))


def test_a_python_without_pip_gets_it(archive, tmp_path):
    run = Commands("--version")
    use_packages(archive(requirements__txt="c==1\n"), tmp_path, run)
    assert any("ensurepip" in command for command in run.asked)


def artifact(directory: Path, name: str, text: str, role: str = STAGING) -> Artifact:
    path = directory / name
    path.write_text(text)
    return Artifact(name, path, role, FILE)


def test_a_job_without_dependencies_has_nothing_to_send(tmp_path):
    ignored = artifact(tmp_path, "submission_environment_dependencies.txt", "a==1")
    for artifacts in ([], [ignored]):
        assert dependencies_of(artifacts, tmp_path) == {}


def test_equal_files_make_one_archive_and_other_files_another(tmp_path):
    def name(text: str) -> str:
        return dependencies_of([artifact(tmp_path, "a.whl", text)], tmp_path)["packages"].name

    assert name("1") == name("1")
    assert name("1") != name("2")


def test_a_main_session_is_no_package(tmp_path):
    dependencies = dependencies_of([artifact(tmp_path, "pickled_main_session", "x")], tmp_path)
    assert "packages" not in dependencies
    assert dependencies["session"].read_text() == "x"


def test_requirements_without_a_name_are_installed_too(tmp_path):
    role = "beam:artifact:role:pip_requirements_file:v1"
    sent = dependencies_of([artifact(tmp_path, "abc123", "c==1", role)], tmp_path)["packages"]
    run = Commands()
    use_packages(sent, tmp_path, run)
    (install,) = run.installs()
    assert install[-2] == "-r"
    assert Path(install[-1]).read_text() == "c==1"


def test_what_does_not_come_to_an_end_is_killed_and_told_of(archive, tmp_path, monkeypatch):
    """As a pip that was stopped."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 60\n")
    python.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(python))
    began = time.monotonic()
    with pytest.raises(BadSetup, match="venv said:\nnothing; it did not come to an end in time"):
        use_packages(archive(), tmp_path, seconds=0.2)
    assert time.monotonic() - began < 30
