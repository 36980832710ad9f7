"""A driver, its JVM and its cluster of different versions of Spark are told apart at once."""

from __future__ import annotations

import pyspark
import pytest

from sparkdrain.errors import BadSetup
from sparkdrain.spark_needs import alike
from sparkdrain.stages.cluster.version_check import check_cluster, check_home, check_session
from sparkdrain.stages.spark.driver import spark_home
from sparkdrain.stages.spark.versions import (
    ForeignMaster,
    home_version,
    pyspark_version,
    version_in,
)


def test_the_installed_spark_is_of_one_version():
    assert pyspark_version() == pyspark.__version__
    assert home_version(spark_home()) == pyspark.__version__


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("4.3.0", "4.3.1", True),
        ("4.3.0", "4.2.1", False),
        ("3.5.9", "4.0.5", False),
        ("4.3.0", "4.3.1-amzn-0", True),
        ("4.1.0", "4.10.0", False),
    ],
)
def test_the_patch_number_makes_no_difference(one, other, same):
    assert alike(one, other) is same


def test_another_spark_in_spark_home_is_named(tmp_path):
    (tmp_path / "jars").mkdir()
    assert home_version(str(tmp_path)) is None
    (tmp_path / "jars" / "spark-core_2.12-3.5.9.jar").touch()
    found = home_version(str(tmp_path))
    assert found == "3.5.9"
    said = rf"SPARK_HOME={tmp_path} is 3\.5\.9, but this program's pyspark is 4\.3\.0\. Unset"
    with pytest.raises(BadSetup, match=said):
        check_home(str(tmp_path), found, "4.3.0")
    check_home(str(tmp_path), found, "3.5.2")
    check_home(str(tmp_path), None, "4.3.0")


def test_a_session_of_another_version_is_named():
    check_session("4.3.1", "4.3.0")
    with pytest.raises(BadSetup, match=r"runs Spark 3\.5\.9, but its pyspark is 4\.3\.0.*submit"):
        check_session("3.5.9", "4.3.0")


def test_a_master_of_another_version_is_named_with_what_to_install():
    asked = []

    def version_of(host, port):
        asked.append((host, port))
        return {"a": None, "b": "4.2.1"}[host]

    said = r"at b:2 is Spark 4\.2\.1, but this program's pyspark is 4\.3\.0.*pyspark==4\.2\.1"
    with pytest.raises(BadSetup, match=said):
        check_cluster("spark://a:1,b:2", "4.3.0", version_of)
    assert asked == [("a", 1), ("b", 2)]


def test_a_master_of_the_same_version_or_of_none_passes():
    check_cluster("spark://a:1", "4.3.0", lambda host, port: "4.3.1")
    check_cluster("spark://a:1", "4.3.0", lambda host, port: None)


def test_a_master_that_cannot_read_a_message_is_of_another_version():
    def version_of(host, port):
        error = "InvalidClassException"
        raise ForeignMaster(error)

    said = r"at a:1 is not of this program's version: pyspark is 4\.3\.0.*\(InvalidClassException\)"
    with pytest.raises(BadSetup, match=said):
        check_cluster("spark://a:1", "4.3.0", version_of)


@pytest.mark.parametrize(
    ("page", "version"),
    [
        ('<span class="version">3.5.9</span>', "3.5.9"),
        ('  <span class="version me-3">4.2.1</span>', "4.2.1"),
        (
            '<span class="version" style="margin-right: 15px;">4.0.0-SNAPSHOT</span>',
            "4.0.0-SNAPSHOT",
        ),
        ("<title>Log in</title>", None),
        ("", None),
    ],
)
def test_a_masters_page_names_its_version(page, version):
    assert version_in(page) == version
