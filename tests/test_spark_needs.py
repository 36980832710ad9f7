from __future__ import annotations

import importlib.metadata
import sys
import zipfile

import pytest
from packaging.specifiers import SpecifierSet

from sparkdrain.spark_needs import javas_for, pythons_for, spark_version

VERSION = '#\n__version__: str = "3.5.9"\n'


def test_the_pyspark_that_is_there_says_of_itself_what_is_known_of_it():
    about = importlib.metadata.metadata("pyspark")
    begin = "Programming Language :: Python :: 3."
    classifiers = about.get_all("Classifier") or []
    named = sorted(int(text[len(begin) :]) for text in classifiers if text.startswith(begin))
    known = pythons_for(spark_version())
    assert known is not None
    assert known.newest == (3, named[-1])
    required = SpecifierSet(about["Requires-Python"])
    assert "{}.{}".format(*known.oldest) in required
    assert f"3.{known.oldest[1] - 1}" not in required


def test_the_version_of_pyspark_is_read_without_importing_it(python):
    asked = (
        "import sys; from sparkdrain.spark_needs import spark_version;"
        "print(spark_version(), 'pyspark' in sys.modules)"
    )
    found = importlib.metadata.version("pyspark")
    assert python("-c", asked).stdout.split() == [found, "False"]


@pytest.fixture
def found_first(monkeypatch):
    """Has imports look in a place before all others, and forgets the PySpark of this process."""
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)

    def first(place):
        monkeypatch.syspath_prepend(str(place))

    return first


def test_a_pyspark_without_metadata_is_known_too(tmp_path, found_first):
    package = tmp_path / "pyspark"
    package.mkdir()
    (package / "__init__.py").write_text("")
    found_first(tmp_path)
    assert spark_version() is None
    (package / "version.py").write_text("nothing")
    assert spark_version() is None
    (package / "version.py").write_text(VERSION)
    assert spark_version() == "3.5.9"


def test_a_pyspark_in_a_zip_file_is_known_too(tmp_path, found_first):
    file = tmp_path / "pyspark.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("pyspark/__init__.py", "")
        archive.writestr("pyspark/version.py", VERSION)
    found_first(file)
    assert spark_version() == "3.5.9"


def test_without_pyspark_there_is_no_version(monkeypatch):
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.setattr(sys, "path", [])
    assert spark_version() is None


def test_of_an_unknown_spark_only_the_java_is_said():
    assert str(javas_for(None)) == "Java 17 or later"
    assert pythons_for(None) is None
    assert pythons_for("5.0.0") is None
