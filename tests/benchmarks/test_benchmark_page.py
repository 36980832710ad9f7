"""The page's tables: who counts, what was tried, and what each step adds."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.jobs import job_named
from benchmarks.page.tables import (
    aims_table,
    edge_note,
    rates_table,
    settings_table,
    steps_table,
)
from benchmarks.rows import Row
from benchmarks.runners import runner_named

JOB = job_named("stream-state")


def row(runner: str, seconds: float, cpu: float, *, outdone: bool = False, **more: str) -> Row:
    """A million elements on a runner."""
    return Row(
        job=JOB.name, runner=runner, family=runner_named(runner).family, n=10**6, elements=10**6,
        seconds=[seconds], cpu=[cpu], loads=[0.5], outdone=outdone, **more,
    )  # fmt: skip


ROWS = [
    row("sparkdrain", 4.0, 6.0),
    row("bytewax-two", 20.0, 30.0, outdone=True),
    row("bytewax-one", 5.0, 5.0, outdone=True),
    row("bytewax-apart", 2.0, 4.5),
    row("bytewax-one-saved", 6.0, 7.5),
]


def lines_with(text: str, word: str) -> list[list[str]]:
    cut = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()]
    return [cells for cells in cut if any(word in cell for cell in cells)]


def test_only_the_fastest_setting_is_compared_by_rate_and_per_core() -> None:
    table = rates_table([JOB], ROWS)
    assert not lines_with(table, "bytewax-two")
    (cells,) = lines_with(table, "`bytewax-apart`")
    assert cells[5:7] == ["500,000", "222,222"]
    assert cells[-3:-1] == ["0.5", "0.8"]


def test_every_setting_of_a_peer_with_several_is_shown_with_what_counts() -> None:
    table = settings_table(ROWS)
    assert [cells[2] for cells in lines_with(table, "`")] == [
        "`bytewax-two`",
        "`bytewax-one`",
        "`bytewax-apart`",
    ]
    assert [cells[2] for cells in lines_with(table, "counts")] == ["`bytewax-apart`"]


def test_the_page_says_where_the_largest_micro_batch_was_the_fastest() -> None:
    smaller = row("structured-streaming-200k", 9.0, 9.0, outdone=True)
    largest = row("structured-streaming-400k", 8.0, 9.0)
    assert "fastest in `stream-state`: a larger" in edge_note([smaller, largest])
    slower = replace(largest, outdone=True)
    assert edge_note([replace(smaller, outdone=False), slower, *ROWS]) == ""


def test_the_page_says_which_aims_are_missed() -> None:
    slow = row("structured-streaming-400k", 80.0, 9.0)
    table = aims_table([JOB], [*ROWS, slow])
    assert [cells[1:-1] for cells in lines_with(table, "stream-state")] == [
        ["stream-state", "elements/s", "250,000", "250,000", "met"],
        ["stream-state", "times `structured-streaming-400k`", "30", "20", "MISSED"],
    ]


def test_a_step_costs_the_difference_of_both_and_is_left_out_without_one_of_them() -> None:
    table = steps_table(ROWS)
    (saved,) = lines_with(table, "save every second")
    (exchanged,) = lines_with(table, "exchange")
    assert saved[-4:-1] == ["5.0", "7.5", "2.5"]
    assert exchanged[-2] == "25.0"


def test_why_a_setting_has_no_figure_stands_in_its_row() -> None:
    failed = row("bytewax-two", 1.0, 1.0, problem="FAILED: no\nend")
    assert lines_with(settings_table([failed, ROWS[2]]), "FAILED: no end")
