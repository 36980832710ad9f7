"""Before Spark starts, the Python that runs the program is compared with what the Spark names."""

from __future__ import annotations

import pytest

from sparkdrain import setup_check
from sparkdrain.errors import BadSetup
from sparkdrain.options import JobSettings
from sparkdrain.spark_needs import Pythons
from sparkdrain.stages.cluster import context as cluster

HERE = JobSettings(spark_master_url="local[1]")


def test_a_python_that_the_spark_does_not_allow_is_refused(monkeypatch):
    monkeypatch.setattr(setup_check, "pythons_for", lambda _: Pythons((3, 90), (3, 91), "Spark 9"))
    monkeypatch.setattr(cluster, "start_jvm", lambda *_: pytest.fail("Java was started"))
    with pytest.raises(BadSetup, match=r"too old for Spark 9, which needs 3\.90 or later"):
        cluster._start(HERE)


def test_a_python_that_is_newer_than_the_spark_is_warned_of_and_used(monkeypatch, caplog):
    monkeypatch.setattr(setup_check, "pythons_for", lambda _: Pythons((3, 8), (3, 9), "Spark 2"))
    cluster._check_place(HERE)
    assert "may fail: Spark 2 names Python" in caplog.text
