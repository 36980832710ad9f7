"""Files that only SDK harnesses need stay where they are, if executors are on this machine."""

from __future__ import annotations

import pytest

from sparkdrain.stages.spark import files as files_of_spark
from sparkdrain.stages.workers.sent_files import SentFiles


@pytest.fixture
def jar(tmp_path):
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"classes")
    return jar


@pytest.mark.parametrize("local", [True, False])
def test_a_staged_file_is_only_copied_for_other_machines(tmp_path, monkeypatch, jar, local):
    sent: list[str] = []
    directory = tmp_path / "sent"
    directory.mkdir()
    monkeypatch.setattr(files_of_spark.SparkFiles, "_root_directory", str(directory))
    monkeypatch.setattr(files_of_spark.SparkFiles, "_is_running_on_worker", True)
    found = files_of_spark.sent_file(
        SentFiles(sent.append, directory, local, "root").send_staged(jar)
    )
    assert found.read_bytes() == b"classes"
    assert (found == jar) is local
    assert [str(found)] * (not local) == sent
