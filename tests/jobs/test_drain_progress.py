from __future__ import annotations

import pytest

from sparkdrain.drain.progress import Hold, Left, advanced, began
from sparkdrain.jobs.drain_progress import answer, infos, line, lines, stage_lines, told

SECOND = 1_000_000


def progress(*seconds_and_windows, holds=()):
    now = began("mine", 0)
    for second, windows in seconds_and_windows:
        left = [Left("Read", 0, 0), Left("Group", 4, 4, windows=windows)]
        now = advanced(now, second * SECOND, left, holds)
    return now


def test_a_line_says_what_is_left_what_is_waited_for_and_when_it_ends():
    found = progress((1, 3000), (3, 2000), holds=[Hold("Group", "windows", 5)])
    assert line(found) == (
        "Drain: 1 of 2 stages are drained; 2,000 windows left; held by windows of 'Group' for 2 s; "
        "500/s, so 4 s more, until 00:00:07 UTC."
    )


def test_a_drain_that_stands_still_promises_no_end():
    assert line(progress((1, 3000), (9, 3000))) == (
        "Drain: 1 of 2 stages are drained; 3,000 windows left."
    )


def test_the_end_says_how_long_it_took():
    assert line(progress((1, 5), (4, 0))) == (
        "Drain: 2 of 2 stages are drained; nothing left inside; after 4.0 s."
    )


def test_stages_that_are_drained_are_not_listed_and_of_very_many_the_first():
    assert stage_lines(progress((1, 7))) == ["  Group: 4 of 4 inputs drained, 7 windows left"]
    many = advanced(began("mine", 0), 1, [Left(f"S{n}", 2, 1) for n in range(30)], [])
    listed = stage_lines(many)
    assert len(listed) == 13
    assert listed[0] == "  S0: 1 of 2 inputs drained, nothing left"
    assert listed[-1] == "  and 18 more"


def test_what_was_told_is_not_told_again_until_time_has_passed():
    first = progress((1, 10))
    assert told(None, first)
    assert told(first, progress((1, 10), (2, 9))) is None
    assert told(first, progress((1, 10), (2, 0)))
    assert told(first, progress((1, 10), (12, 9)))


def test_counters_of_stages_are_read_back_as_lines():
    found = advanced(began("mine", 0), 1, [Left("A", 1, 0, 5, 6, 7, 8), Left("Bä", 1, 1)], [])
    assert lines(infos(found, 3))[1:] == [
        "  A: 5 windows, 6 timers, 7 parked elements, 8 restrictions",
        "  Bä: nothing",
    ]


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (None, "has not answered"),
        ("Größe", "Gr??e"),
        (progress((1, 0)), "A drain would find nothing inside."),
    ],
)
def test_the_answer_to_a_dry_run_fits_into_the_metadata_of_a_call(found, says):
    text = answer(found)
    assert says in text
    assert text.isascii()
    assert "\n" not in text
