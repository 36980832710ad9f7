"""A program that uses Spark Connect is told so before anything starts."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import apache_beam as beam
import pytest

from sparkdrain.errors import BadSetup
from sparkdrain.jobs.engine import SparkEngine
from sparkdrain.options import JobSettings
from sparkdrain.stages.cluster.masters import check_classic

SESSIONS = "pyspark.sql.connect.session"


def sessions(default=None, active=None):
    """The module of Connect sessions, with such sessions."""
    of_thread = threading.local()
    if active is not None:
        of_thread.session = active
    kind = SimpleNamespace(_default_session=default, _active_session=of_thread)
    return {SESSIONS: SimpleNamespace(SparkSession=kind)}


def test_a_classic_program_passes():
    check_classic("local[2]", [("spark.api.mode", "classic")], {}, sessions())
    check_classic(None, [], {"SPARK_REMOTE": ""}, {})
    # A Connect server in this very process has a classic session.
    check_classic(None, [], {"SPARK_CONNECT_MODE_ENABLED": "1", "SPARK_LOCAL_REMOTE": "1"}, {})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"master": "sc://a:15002"}, "--spark_master_url=sc://a:15002 is the address of a Spark C"),
        ({"properties": [("spark.remote", "sc://a")]}, "--spark_conf=spark.remote=sc://a asks"),
        ({"properties": [("spark.api.mode", "connect")]}, "--spark_conf=spark.api.mode=connect"),
        (
            {"environ": {"SPARK_REMOTE": "sc://a"}},
            "SPARK_REMOTE=sc://a asks for Spark Connect.*uns",
        ),
        ({"environ": {"SPARK_CONNECT_MODE_ENABLED": "1"}}, "SPARK_CONNECT_MODE_ENABLED is set"),
        ({"modules": sessions(default=object())}, "active Spark Connect session.*stop that"),
        ({"modules": sessions(active=object())}, "active Spark Connect session"),
    ],
)
def test_whatever_asks_for_spark_connect_is_named_with_the_remedy(given, said):
    asked = {"master": None, "properties": [], "environ": {}, "modules": {}, **given}
    with pytest.raises(BadSetup, match=said) as refused:
        check_classic(**asked)
    assert "--spark_master_url (local[*], spark://host:port" in str(refused.value)


def test_a_job_is_refused_when_it_is_submitted(monkeypatch):
    pipeline = beam.Pipeline()
    pipeline | beam.Create([1])
    proto = pipeline.to_runner_api()
    SparkEngine().check(proto, JobSettings())
    monkeypatch.setenv("SPARK_REMOTE", "sc://somewhere")
    with pytest.raises(BadSetup, match="SPARK_REMOTE=sc://somewhere"):
        SparkEngine().check(proto, JobSettings())


def test_the_connect_sessions_of_the_installed_pyspark_are_found():
    """PySpark's own names, not those of the double above."""
    pytest.importorskip("grpc_status", reason="Spark Connect's own packages are not there")
    session = pytest.importorskip(SESSIONS).SparkSession
    assert session._default_session is None
    assert isinstance(session._active_session, threading.local)
