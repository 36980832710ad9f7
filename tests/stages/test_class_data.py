"""Class data are used where they are, for the Java and the Spark that they were made for."""

from __future__ import annotations

import pytest

from sparkdrain.errors import BadSetup
from sparkdrain.stages.cluster.class_data import (
    class_data,
    class_data_file,
    using_class_data,
)


@pytest.fixture
def java(tmp_path):
    """Makes a Java; answers the environment in which it is the one."""

    def make(name: str = "java", size: int = 1, **more: str) -> dict[str, str]:
        program = tmp_path / name / "bin" / "java"
        program.parent.mkdir(parents=True, exist_ok=True)
        if not program.exists() or program.stat().st_size != size:
            program.write_bytes(b"x" * size)
        program.chmod(0o755)
        return {"JAVA_HOME": str(tmp_path / name), **more}

    return make


def test_class_data_are_used_from_the_moment_that_they_are_there(java, tmp_path):
    environ = java()
    without = using_class_data(environ, tmp_path)
    assert "Shared" not in without
    file = class_data_file(environ, tmp_path)
    file.touch()
    options = using_class_data(environ, tmp_path)
    assert options.startswith(without)
    assert f"-XX:SharedArchiveFile={file}" in options.split()
    assert "-Xshare:auto" in options.split()  # "on" would be an error where they do not fit


def test_executors_are_told_where_class_data_are_and_nothing_else(java, tmp_path):
    environ = java()
    assert class_data(environ, tmp_path) == ""
    file = class_data_file(environ, tmp_path)
    file.touch()
    assert class_data(environ, tmp_path).split() == [
        "-Xshare:auto",
        "-Xlog:cds*=off",
        f"-XX:SharedArchiveFile={file}",
    ]


@pytest.mark.parametrize(
    "another", [{"name": "other"}, {"size": 2}, {"SPARK_HOME": "/elsewhere"}], ids=str
)
def test_another_java_and_another_spark_have_class_data_of_their_own(java, tmp_path, another):
    file = class_data_file(java(), tmp_path)
    assert class_data_file(java(), tmp_path) == file
    assert class_data_file(java(**another), tmp_path) != file


def test_a_link_to_a_java_is_that_java(java, tmp_path):
    file = class_data_file(java(), tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "java")
    assert class_data_file({"JAVA_HOME": str(tmp_path / "link")}, tmp_path) == file


def test_who_has_no_java_is_told_so_elsewhere(tmp_path):
    assert "Shared" not in using_class_data({"PATH": "/nowhere"}, tmp_path)


@pytest.mark.parametrize("name", ["my files", "my:files", 'my"files', "my,files"])
def test_a_path_that_would_be_misread_is_never_used(java, tmp_path, name):
    environ = java()
    place = tmp_path / name
    place.mkdir()
    (place / class_data_file(environ, tmp_path).name).touch()
    assert "Shared" not in using_class_data(environ, place)
    with pytest.raises(BadSetup, match="another place"):
        class_data_file(environ, place)
