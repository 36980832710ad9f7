"""How far a job is, in words."""

from __future__ import annotations

import apache_beam as beam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.graph.translate import translate
from sparkdrain.stages.telling.progress import JobProgress, count, duration, size, steps_of
from sparkdrain.stages.telling.report import SlotReport


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def progress(clock):
    return JobProgress("job-1", ["Read", "Group, Sum", "Write"], clock)


def report(slot: int, handled: int, sent: int = 0, spilled: int = 0) -> SlotReport:
    return SlotReport(0, slot, 1, {}, {}, handled=handled, sent_bytes=sent, spilled=spilled)


def test_a_level_shows_what_its_slots_last_said_and_at_its_end_what_they_reported(progress, clock):
    progress.begin(0)
    clock.now += 2
    progress.tick(0, 0, 1000)
    progress.tick(0, 1, 500)
    progress.tick(0, 0, 3000)
    assert progress.rows()[0] == ("1", "Read", "3.50 k", "1.75 k/s", "2.0 s")
    progress.end(0, [report(0, 4000), report(1, 4000)])
    clock.now += 7
    assert progress.rows()[0] == ("1", "Read", "8.00 k", "4.00 k/s", "2.0 s")


def test_levels_to_come_have_no_figures(progress):
    progress.begin(0)
    assert progress.rows()[1:] == [("2", "Group, Sum", "", "", ""), ("3", "Write", "", "", "")]


def test_a_slot_that_speaks_after_its_level_has_ended_changes_nothing(progress, clock):
    progress.begin(0)
    clock.now += 1
    progress.end(0, [report(0, 10)])
    progress.tick(0, 0, 7)
    progress.tick(9, 0, 7)
    assert progress.rows()[0][2] == "10"


def test_a_job_that_is_run_again_counts_once(progress, clock):
    progress.begin(0)
    progress.end(0, [report(0, 10, sent=1 << 20)])
    progress.begin(1)
    progress.begin(0)
    clock.now += 1
    assert progress.rows()[1][-1] == ""
    progress.end(0, [report(0, 20, sent=1 << 20, spilled=1 << 10)])
    clock.now += 2
    assert progress.summary() == (
        "Job job-1 done in 3.0 s: 20 elements, 1.00 MiB shuffled, 1.00 KiB spilled"
    )


def test_one_line_tells_where_the_job_is(progress, clock):
    progress.begin(1)
    assert progress.line() == "level 2 of 3 (Group, Sum): starting, 0.0 s"
    clock.now += 4
    progress.tick(1, 0, 2_000_000)
    assert progress.line() == ("level 2 of 3 (Group, Sum): 2.00 M elements, 500 k/s, 4.0 s")


def test_a_cluster_that_gives_no_core_is_noticed(progress, clock):
    progress.begin(0)
    clock.now += 31
    assert "are there executors with free cores?" in progress.line()
    assert progress.rows()[0][3] == "waiting"


def test_a_long_job_shows_the_levels_around_the_present_one(clock):
    progress = JobProgress("job-1", [f"step {number}" for number in range(1, 101)], clock)
    for level in range(50):
        progress.begin(level)
        progress.end(level, [])
    progress.begin(50)
    numbers = [int(row[0]) for row in progress.rows()]
    assert 51 in numbers
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert len(numbers) < 20


def test_levels_are_called_by_the_users_own_steps():
    p = beam.Pipeline()
    _ = (
        p
        | "Numbers" >> beam.Create(range(3))
        | "Key" >> beam.Map(lambda n: (n, n))
        | "Sum" >> beam.CombinePerKey(sum)
        | "Show" >> beam.Map(print)
    )
    steps = steps_of(translate(p.to_runner_api()))
    assert steps[-2:] == ["Numbers, Key, Sum", "Sum, Show"]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (7, "7"),
        (999, "999"),
        (1000, "1.00 k"),
        (12345, "12.3 k"),
        (999_499, "999 k"),
        (999_999, "1.00 M"),
        (3.2e9, "3.20 G"),
        (5e15, "5000 T"),
    ],
)
def test_numbers_are_short(number, text):
    assert count(number) == text


@given(st.floats(0, 1e15))
def test_a_short_number_is_off_by_less_than_one_percent_or_half_of_one(number):
    text, _, unit = count(number).partition(" ")
    shown = float(text) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[unit]
    assert abs(shown - number) <= max(0.01 * number, 0.5)


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 B"), (1023, "1.00 KiB"), (1536, "1.50 KiB"), (2**31, "2.00 GiB")]
)
def test_bytes_have_binary_units(number, text):
    assert size(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (59.9, "59.9 s"),
        (59.99, "1 min 00 s"),
        (200, "3 min 20 s"),
        (3599.7, "1 h 00 min"),
        (7500, "2 h 05 min"),
    ],
)
def test_times_are_what_people_say(seconds, text):
    assert duration(seconds) == text
