"""What a session of Spark gets for safety, unless the user says something else."""

from __future__ import annotations

import re

import pytest

from sparkdrain.options import JobSettings
from sparkdrain.stages.cluster import context

SECRET_PROPERTIES = (
    "spark.hadoop.fs.azure.account.key.mine.dfs.core.windows.net",
    "spark.hadoop.fs.s3a.access.key",
    "spark.kafka.sasl.jaas.config",
    "spark.ssl.keyPassword",
    "spark.my.credentials",
)


@pytest.fixture(params=["local[2]", "spark://host:7077"])
def configured(request, monkeypatch):
    """What a session for a master gets beside these properties."""
    monkeypatch.setattr(context, "_keep_sockets_private", lambda conf: None)

    def configuration(*given):
        settings = JobSettings(spark_master_url=request.param, spark_conf=given)
        return context._configuration(settings)

    return configuration


def test_spark_hides_the_secrets_that_this_package_hides(configured):
    """It hides what its regular expression finds in the name or the value of a property."""
    hidden = re.compile(configured().get("spark.redaction.regex"))
    assert all(map(hidden.search, SECRET_PROPERTIES))
    assert not hidden.search("spark.sql.shuffle.partitions")
    own = ("spark.redaction.regex", "mine")
    assert configured(own).get("spark.redaction.regex") == "mine"


@pytest.mark.parametrize("version", ["3.5.9", "4.0.1", "10.0.0"])
def test_executors_have_class_data_unless_their_java_may_be_8_or_the_user_says_something_else(
    monkeypatch, configured, version
):
    monkeypatch.setattr(context, "class_data", lambda environ: "-XX:mine")
    monkeypatch.setattr(context, "pyspark_version", lambda: version)
    name = "spark.executor.defaultJavaOptions"
    on_a_cluster = (configured().get("spark.master") or "").startswith("spark://")
    have = on_a_cluster and version != "3.5.9"
    assert configured().get(name) == ("-XX:mine" if have else None)
    assert configured((name, "-Xss1m")).get(name) == "-Xss1m"


def test_who_reaches_the_page_of_spark_cannot_end_jobs(configured):
    assert configured().get("spark.ui.killEnabled") == "false"
