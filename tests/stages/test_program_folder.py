"""Workers of a local master work where the program does, whenever the program goes elsewhere."""

from __future__ import annotations

import os
from types import SimpleNamespace

import apache_beam as beam
import pytest
from apache_beam.io import fileio

from sparkdrain.errors import BadSetup
from sparkdrain.graph.notices import relative_paths
from sparkdrain.stages.cluster.executors import lost_paths
from sparkdrain.stages.workers.preparation import Preparation
from sparkdrain.stages.workers.worker import Worker


@pytest.fixture
def folders(tmp_path):
    """Two folders with a file of their own each."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lines.txt").write_text(f"of the {name}\n")
    return tmp_path


def _see(line):
    with open("seen", "a") as file:
        file.write(f"{line}\n")


def _go_away(element):
    os.chdir("/")
    return element


@pytest.mark.spark
@pytest.mark.parametrize("mode", [(), ("--streaming",)], ids=["batch", "streaming"])
def test_relative_paths_lead_workers_where_they_lead_the_program(
    pipeline, folders, monkeypatch, mode
):
    for name in ("first", "second", "first"):
        monkeypatch.chdir(folders / name)
        with pipeline(*mode) as p:
            read = p | beam.io.ReadFromText("./*.txt")
            _ = (
                read
                | "Key" >> beam.Map(lambda line: (line, os.getcwd()))
                | beam.GroupByKey()
                | beam.MapTuple(lambda line, where: f"{line} in {os.path.basename(*where)}")
                | beam.Map(_see)
            )
        seen = folders / name / "seen"
        assert seen.read_text() == f"of the {name} in {name}\n"
        seen.unlink()
        with pipeline(*mode) as p:
            _ = p | beam.Create(range(8)) | beam.Map(_go_away)


@pytest.mark.spark
def test_the_folder_counts_in_which_the_pipeline_is_run_and_files_are_written_there(
    pipeline, folders, monkeypatch
):
    monkeypatch.chdir(folders / "first")
    p = pipeline()
    read = p | beam.io.ReadFromText("lines.txt")
    _ = read | beam.io.WriteToText("out/written", num_shards=1)
    monkeypatch.chdir(folders / "second")
    result = p.run()
    monkeypatch.chdir(folders)
    result.wait_until_finish()
    (written,) = (folders / "second" / "out").iterdir()
    assert written.read_text() == "of the second\n"


def test_a_worker_goes_to_the_folder_again_for_each_task(folders, monkeypatch):
    monkeypatch.chdir(folders)
    worker, preparation = Worker(), Preparation.of({}, directory=str(folders / "first"))
    for _ in range(2):
        worker.prepare(preparation)
        assert os.getcwd() == str(folders / "first")
        os.chdir(folders)
    worker.prepare(Preparation.of({}))
    assert os.getcwd() == str(folders), "elsewhere than on the program's machine it stays"


def test_a_folder_that_is_gone_is_told_of(tmp_path):
    with pytest.raises(BadSetup, match=r"program's directory.*/gone'. Keep the directory until"):
        Worker().prepare(Preparation.of({}, directory=str(tmp_path / "gone")))


def _with_paths() -> beam.Pipeline:
    p = beam.Pipeline()
    read = p | "Numbers" >> beam.io.ReadFromText("./*.txt", validate=False)
    _ = p | "Whole" >> beam.io.ReadFromText("/data/*.txt", validate=False)
    _ = p | fileio.MatchFiles("/data/*.txt")
    _ = read | beam.io.WriteToText("out/written")
    return p.to_runner_api()


def test_relative_paths_of_a_pipeline_are_found_with_their_steps():
    assert relative_paths(_with_paths()) == {
        "./*.txt": "Numbers/Read",
        "out/written-%(shard_num)05d-of-%(num_shards)05d": "WriteToText/Write",
    }


def test_on_a_cluster_a_relative_path_is_warned_of_with_step_cause_and_remedy():
    cluster = SimpleNamespace(master="spark://host:7077")
    first, second = lost_paths(cluster, _with_paths())
    assert first.startswith(
        "'Numbers/Read' has the relative path './*.txt'. The executors of spark://host:7077 look"
    )
    assert "Give an absolute path that all executors share, or a URL" in first
    assert second.startswith("'WriteToText/Write' has the relative path 'out/written-")
    assert lost_paths(SimpleNamespace(master="local[2]"), _with_paths()) == []
