"""A worker gets ready for a job as Beam's own worker would."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from apache_beam.internal import pickler
from apache_beam.options.value_provider import RuntimeValueProvider

from sparkdrain.errors import BadSetup
from sparkdrain.fnapi.class_paths import SPARE_JVM
from sparkdrain.stages.workers.preparation import Preparation, job_of, level_asked_for, prepare


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    root = logging.getLogger()
    level, options = root.level, RuntimeValueProvider.runtime_options
    yield
    root.setLevel(level)
    logging.getLogger("some.module").setLevel(logging.NOTSET)
    RuntimeValueProvider.runtime_options = options
    pickler.set_library()


def test_another_version_of_beam_than_the_programs_is_refused_and_both_are_named():
    other = replace(Preparation.of({}), beam="2.1.0")
    with pytest.raises(BadSetup, match=r"executors have apache-beam 2\.\d+.*program has 2\.1\.0"):
        prepare(other)


def test_another_version_of_pyspark_than_the_programs_is_refused_and_both_are_named():
    other = replace(Preparation.of({}), spark="2.4.1")
    with pytest.raises(BadSetup, match=r"executors have pyspark \d.*program has 2\.4\.1"):
        prepare(other)


def test_workers_log_at_the_level_of_the_program_unless_the_options_say_otherwise():
    logging.getLogger().setLevel(logging.ERROR)
    here = Preparation.of({})
    logging.getLogger().setLevel(logging.DEBUG)
    prepare(here)
    assert logging.getLogger().level == logging.ERROR
    prepare(Preparation.of({"default_sdk_harness_log_level": "INFO"}))
    assert logging.getLogger().level == logging.INFO


@pytest.mark.parametrize(
    ("asked", "level"), [(None, 30), ("DEBUG", 10), ("15", 15), (40, 40), ("LOUD", 30)]
)
def test_a_log_level_is_a_name_or_a_number(asked, level):
    assert level_asked_for({"default_sdk_harness_log_level": asked}, 30) == level


def test_single_modules_may_have_a_log_level_of_their_own():
    prepare(Preparation.of({"sdk_harness_log_level_overrides": {"some.module": "DEBUG"}}))
    assert logging.getLogger("some.module").level == logging.DEBUG


def test_values_that_are_known_only_at_run_time_are_there():
    prepare(Preparation.of({"of_the_program": 7}))
    assert RuntimeValueProvider.get_value("of_the_program", int, 0) == 7


def test_a_plug_in_may_be_a_module_or_a_class_and_a_missing_one_is_only_warned_of(caplog):
    plugins = ["json.tool", "xml.dom.minidom.Document", "nowhere.Plugin"]
    prepare(Preparation.of({"beam_plugins": plugins}))
    assert [record.args for record in caplog.records if "plug-in" in record.msg] == [
        ("nowhere.Plugin",)
    ]


def test_equal_options_make_equal_preparations_whatever_their_order():
    assert Preparation.of({"a": 1, "b": object}) == Preparation.of({"b": object, "a": 1})


@pytest.mark.parametrize(
    ("slots", "waiting", "shares"), [(1, "", False), (2, "", True), (1, "/spare", True)]
)
def test_slots_share_a_jvm_unless_one_slot_is_alone_and_none_waits_for_it(
    monkeypatch, slots, waiting, shares
):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/a,/b")
    monkeypatch.delenv(SPARE_JVM, raising=False)
    if waiting:
        monkeypatch.setenv(SPARE_JVM, waiting)
    job = job_of("job", Preparation.of({}), slots=slots)
    assert (job.executor is not None) == shares
    assert not shares or str(job.executor).startswith("/a/")
