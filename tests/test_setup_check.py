from __future__ import annotations

import importlib.metadata

import pytest
from packaging.requirements import Requirement

from sparkdrain import setup_check
from sparkdrain.errors import BadSetup
from sparkdrain.setup_check import (
    NotNamed,
    check_java,
    check_package,
    check_python,
    check_python_for_spark,
    check_temporary_directory,
    requirements,
)
from sparkdrain.spark_needs import javas_for, pythons_for

OPENJDK = 'openjdk version "17.0.9" 2023-10-17\nOpenJDK Runtime Environment'


@pytest.fixture
def home(tmp_path):
    """A directory that looks like a JAVA_HOME."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    return tmp_path


def test_java_of_java_home_is_asked_for_its_version(home):
    asked = []

    def run(command):
        asked.append(command)
        return OPENJDK

    environ = {"JAVA_HOME": str(home), "PATH": "/nowhere"}
    assert check_java(environ, run) == f"17.0.9 ({home}/bin/java)"
    assert asked == [[f"{home}/bin/java", "-version"]]


def test_without_java_home_the_path_is_searched(home):
    environ = {"PATH": f"/nowhere:{home}/bin"}
    assert check_java(environ, lambda command: OPENJDK) == f"17.0.9 ({home}/bin/java)"


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ('java version "21" 2023-09-19 LTS', "21"),
        ('Picked up _JAVA_OPTIONS: -Xmx1g\nopenjdk version "25-ea" 2025-09-16', "25-ea"),
        ('openjdk version "17.0.9+9-Debian"', "17.0.9+9-Debian"),
    ],
)
def test_versions_are_read_as_different_javas_print_them(home, printed, version):
    assert check_java({"JAVA_HOME": str(home)}, lambda command: printed).startswith(f"{version} (")


@pytest.mark.parametrize(
    ("printed", "version"),
    [('java version "1.8.0_392"', "8.0_392"), ('openjdk version "11.0.2"', "11.0.2")],
)
def test_a_java_that_is_too_old_is_refused(home, printed, version):
    with pytest.raises(BadSetup, match=rf"Java {version} at .*too old.*Install Java 17 or later"):
        check_java({"JAVA_HOME": str(home)}, lambda command: printed)


@pytest.mark.parametrize(
    ("spark", "java", "said"),
    [
        ("3.5.9", "1.8.0_402", None),
        ("3.5.9", "11.0.2", None),
        ("3.5.9", "25", "Java 25 at .*too new for Spark 3.5.*Install Java 8 to 23"),
        ("4.0.5", "11.0.2", "Java 11.0.2 at .*too old for Spark 4.0.*Install Java 17 to 23"),
        ("4.0.5", "25", "too new for Spark 4.0"),
        ("4.1.4", "25", None),
        ("4.3.0", "25", None),
        ("4.3.0", "11.0.2", "too old for Spark. Install Java 17 or later"),
    ],
)
def test_which_java_fits_depends_on_the_spark(home, spark, java, said):
    javas = javas_for(spark)
    printed = f'openjdk version "{java}"'
    if said is None:
        assert check_java({"JAVA_HOME": str(home)}, lambda command: printed, javas)
        return
    with pytest.raises(BadSetup, match=said):
        check_java({"JAVA_HOME": str(home)}, lambda command: printed, javas)


def test_no_java_at_all_is_told_with_the_remedy():
    with pytest.raises(BadSetup, match=r"no Java on this machine.*set JAVA_HOME"):
        check_java({"PATH": "/nowhere"}, lambda command: OPENJDK)


def test_a_java_home_without_java_is_named(tmp_path):
    with pytest.raises(BadSetup, match=rf"JAVA_HOME is {tmp_path}, but"):
        check_java({"JAVA_HOME": str(tmp_path)}, lambda command: OPENJDK)


def test_a_java_that_does_not_start_or_says_nothing_useful_is_named(home):
    def fail(command):
        raise PermissionError(13, "denied")

    with pytest.raises(BadSetup, match=r"does not start: .*denied"):
        check_java({"JAVA_HOME": str(home)}, fail)
    with pytest.raises(BadSetup, match=r"does not name a version.*It printed: Unable to locate"):
        check_java({"JAVA_HOME": str(home)}, lambda command: "Unable to locate a Java Runtime.")


def test_an_old_python_is_refused():
    assert check_python((3, 10, 4)) == "3.10.4"
    with pytest.raises(BadSetup, match=r"Python 3\.9\.1 is too old; use 3\.10 or later"):
        check_python((3, 9, 1))


@pytest.mark.parametrize(
    ("spark", "python"),
    [
        ("3.5.9", (3, 10, 13)),
        ("3.5.9", (3, 11, 7)),
        ("4.0.5", (3, 13, 0)),
        ("4.2.1", (3, 10, 13)),
        ("4.3.0", (3, 11, 7)),
        ("4.3.0", (3, 14, 0)),
    ],
)
def test_a_python_that_the_spark_names_is_fine(spark, python):
    assert check_python_for_spark(python, pythons_for(spark)) == ".".join(map(str, python))


def test_a_python_that_the_spark_does_not_allow_is_refused():
    message = r"Python 3\.10\.13 is too old for Spark 4\.3, which needs 3\.11 or later\. Use"
    with pytest.raises(BadSetup, match=message):
        check_python_for_spark((3, 10, 13), pythons_for("4.3.0"))


@pytest.mark.parametrize(
    ("spark", "python", "named"),
    [
        ("3.5.9", (3, 12, 1), r"Spark 3\.5 names Python 3\.10 to 3\.11"),
        ("3.5.9", (3, 13, 0), r"Spark 3\.5 names Python 3\.10 to 3\.11"),
        ("4.0.5", (3, 14, 0), r"Spark 4\.0 names Python 3\.10 to 3\.13"),
    ],
)
def test_a_python_that_is_newer_than_the_spark_is_warned_of(spark, python, named):
    text = ".".join(map(str, python))
    with pytest.raises(NotNamed, match=rf"Python {text} may fail: {named}\. Use one of these"):
        check_python_for_spark(python, pythons_for(spark))


@pytest.mark.parametrize("spark", [None, "5.0.0"])
def test_nothing_is_said_of_the_python_of_a_spark_that_is_not_known(spark, monkeypatch):
    monkeypatch.setattr(setup_check, "spark_version", lambda: spark)
    assert check_python_for_spark((3, 10, 13)) == "3.10.13"


def test_packages_must_have_a_version_that_fits():
    needed = Requirement("protobuf>=6.31,<7")
    assert check_package(needed, lambda name: "6.33.0") == "6.33.0"
    with pytest.raises(BadSetup, match=r"protobuf 7\.1 does not fit.*pip install 'protobuf"):
        check_package(needed, lambda name: "7.1")

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    with pytest.raises(BadSetup, match=r"protobuf is not installed. Run: pip install 'protobuf"):
        check_package(needed, missing)


def test_what_the_package_needs_is_read_from_its_own_metadata(monkeypatch):
    texts = ["pyspark<4.4,>=4.3", 'pandas<3; extra == "flights"', 'x; python_version < "3"']
    monkeypatch.setattr(setup_check.importlib.metadata, "requires", lambda name: texts)
    assert [needed.name for needed in requirements()] == ["pyspark"]


def test_a_checkout_that_is_not_installed_has_no_requirements(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(setup_check.importlib.metadata, "requires", missing)
    assert requirements() == []


def test_temporary_files_must_be_possible(tmp_path):
    assert str(tmp_path) in check_temporary_directory(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(BadSetup, match=r"Cannot write to .*nowhere.*Set TMPDIR"):
        check_temporary_directory(str(tmp_path / "nowhere"))
