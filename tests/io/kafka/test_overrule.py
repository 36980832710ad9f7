"""How operators overrule a sink that refuses: by name, and for a day."""

from __future__ import annotations

from datetime import date

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from sparkdrain.errors import BadOption
from sparkdrain.io.kafka import overrule
from sparkdrain.io.kafka.note import Recorded
from sparkdrain.io.kafka.outbox import Refusal
from sparkdrain.io.kafka.overrule import overruled, refusal


@pytest.fixture(autouse=True)
def _today(monkeypatch):
    monkeypatch.setattr(overrule, "_today", lambda: date(2026, 3, 1))


def names(*values):
    return overruled(PipelineOptions([f"--kafka_publish_anyway={value}" for value in values]))


def test_names_are_of_starts_on_one_day():
    assert names() == []
    assert names("a=2026-03-01", "b=c=2026-03-01") == ["a", "b=c"]
    # Clocks and time zones differ.
    assert names("a=2026-02-28", "b=2026-03-02") == ["a", "b"]


@pytest.mark.parametrize("day", ["2026-02-27", "2026-03-03", "2025-03-01"])
def test_another_day_is_refused(day):
    with pytest.raises(BadOption, match=rf"was for starts on {day}, and today is 2026-03-01"):
        names("a=2026-03-01", f"b={day}")


@pytest.mark.parametrize("value", ["a", "2026-03-01", "=2026-03-01", "a=1", "a=2026-03-01x"])
def test_what_has_no_name_or_no_day_is_refused(value):
    with pytest.raises(BadOption, match=r"is not NAME=YYYY-MM-DD"):
        names(value)


@pytest.mark.parametrize("verdict", Refusal)
def test_a_refusal_names_group_reason_and_the_option_that_overrules_it(verdict):
    text = refusal(verdict, "s=1", "s=1-4", Recorded(7), 3, 5)
    assert text.startswith("'s=1-4' publishes nothing: ")
    option = text.rpartition(" --kafka_publish_anyway=")[2]
    assert names(option) == ["s=1"]
