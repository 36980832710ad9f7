"""How many log records of a slot become messages of a streaming job."""

from __future__ import annotations

import logging

import pytest

from sparkdrain.stages.telling.log_channel import LogLimit

INFO, WARNING, ERROR = logging.INFO, logging.WARNING, logging.ERROR


def passed(limit: LogLimit, level: int, count: int) -> list[tuple[int, str]]:
    told = (limit(level, f"record {number}") for number in range(count))
    return [record for record in told if record is not None]


def test_of_many_records_the_first_ones_pass_and_one_note_says_that_the_others_are_cut():
    *first, (level, note) = passed(LogLimit(3, lambda: 7.0), INFO, 1000)
    assert first == [(INFO, "record 0"), (INFO, "record 1"), (INFO, "record 2")]
    assert level == WARNING
    assert "more than 3 log records below WARNING within a minute" in note
    assert "The log of the executor has them." in note


def test_records_that_are_as_many_as_may_pass_have_no_note():
    assert passed(LogLimit(3, lambda: 7.0), INFO, 3) == [(INFO, f"record {n}") for n in range(3)]


def test_a_warning_passes_however_much_else_was_logged():
    limit = LogLimit(1, lambda: 7.0)
    passed(limit, INFO, 1000)
    *first, (_, note) = passed(limit, ERROR, 3)
    assert first == [(ERROR, "record 0")]
    assert "more than 1 warnings and errors within a minute" in note


def test_the_next_minute_has_records_again_and_a_note_again():
    now = [7.0]
    limit = LogLimit(1, lambda: now[0])
    assert len(passed(limit, INFO, 5)) == 2
    now[0] = 66.9
    assert not passed(limit, INFO, 5)
    now[0] = 67.0
    assert len(passed(limit, INFO, 5)) == 2


@pytest.mark.parametrize(("slots", "most"), [(1, 300), (3, 100), (200, 10)])
def test_slots_share_what_a_job_may_tell(slots, most):
    assert len(passed(LogLimit.of(slots), INFO, 400)) == most + 1
