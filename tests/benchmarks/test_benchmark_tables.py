from __future__ import annotations

from benchmarks.jobs import Bar, Goal, Job
from benchmarks.ratios import ratios
from benchmarks.report import (
    PROBLEM_LENGTH,
    figures_table,
    goals_table,
    ratios_table,
    rows_table,
    startup_table,
)
from benchmarks.rows import RATE, Row, StartRow

JOB = Job(
    name="job",
    module="chain",
    size=1000,
    what="a job",
    bars={"beam-spark": Bar(2, 5), "pyspark": Bar(None, 0.7)},
    goals=(Goal(RATE, at_least=400), Goal("p50 (ms)", at_most=100)),
)


def row(runner: str, family: str, seconds: list[float], **more: object) -> Row:
    n = int(more.pop("n", 1000))
    cpu = [2 * s for s in seconds]
    return Row(job="job", runner=runner, family=family, n=n, elements=n, seconds=seconds, cpu=cpu,
               loads=[0.0] * len(seconds), **more)  # fmt: skip


def test_the_median_of_the_runs_makes_the_rate() -> None:
    assert row("sparkdrain", "sparkdrain", [1.0, 100.0, 2.0]).rate == 500


def test_of_a_peers_settings_the_fastest_counts() -> None:
    rows = [
        row("sparkdrain", "sparkdrain", [1.0]),
        row("beam-spark-loopback", "beam-spark", [6.0]),
        row("beam-spark-external", "beam-spark", [3.0]),
    ]
    ratio = ratios([JOB], rows)[0]
    assert (ratio.setting, ratio.value, ratio.cpu) == ("beam-spark-external", 3.0, 3.0)
    assert ratio.verdict == "reaches now"


def test_a_peer_with_a_smaller_n_is_compared_by_rate_and_the_table_says_so() -> None:
    rows = [
        row("sparkdrain", "sparkdrain", [1.0]),
        row("beam-spark-loopback", "beam-spark", [1.0], n=10, share=0.01),
    ]
    found = ratios([JOB], rows)
    assert found[0].value == 100
    assert "peer ran 0.01 x n" in ratios_table(found)


def test_a_bar_without_figures_stays_in_the_table() -> None:
    rows = [row("sparkdrain", "sparkdrain", [], problem="FAILED: no end")]
    found = ratios([JOB], rows)
    assert [(r.family, r.verdict) for r in found] == [
        ("beam-spark", "no figure"),
        ("pyspark", "no figure"),
    ]


def test_a_ratio_below_the_first_bar_is_called_so() -> None:
    rows = [row("sparkdrain", "sparkdrain", [1.0]), row("x", "beam-spark", [1.9])]
    assert ratios([JOB], rows)[0].verdict == "BELOW NOW"


def test_runs_before_a_failure_give_no_rate() -> None:
    failed = row("sparkdrain", "sparkdrain", [1.0], problem="WRONG RESULT: 1, expected 2")
    assert failed.rate is None
    assert "WRONG RESULT" in rows_table([failed])


def test_a_long_reason_is_cut_and_cannot_break_the_table() -> None:
    table = rows_table([row("sparkdrain", "sparkdrain", [], problem="a|b" * 300)])
    head, _, line = table.splitlines()
    assert head.count("|") == line.count("|")
    assert "a/b" in line
    assert len(line.split("|")[-2].strip()) == PROBLEM_LENGTH


def test_start_up_is_held_to_eight_seconds_and_one() -> None:
    table = startup_table([StartRow("sparkdrain", [7.0, 8.5, 7.5], [0.9, 1.2, 1.1])])
    assert "first within 8 s, second ABOVE 1 s" in table


def test_a_goal_is_met_by_the_median_of_the_runs() -> None:
    delays = {"p50 (ms)": [900.0, 90.0, 80.0]}
    table = goals_table([JOB], [row("sparkdrain", "sparkdrain", [1.0] * 3, figures=delays)])
    rate, delay = table.splitlines()[2:]
    assert "1,000" in rate
    assert "≥ 400" in rate
    assert "| met" in rate
    assert "| 90 " in delay
    assert "≤ 100" in delay
    assert "| met" in delay


def test_a_goal_that_is_missed_and_one_without_a_figure_are_called_so() -> None:
    table = goals_table([JOB], [row("sparkdrain", "sparkdrain", [10.0])])
    rate, delay = table.splitlines()[2:]
    assert "NOT MET" in rate
    assert "no figure" in delay


def test_goals_are_of_this_runner_alone() -> None:
    assert goals_table([JOB], [row("fnapi", "fnapi", [1.0])]) == ""


def test_figures_of_a_run_that_failed_are_not_shown() -> None:
    found = {"p50 (ms)": [5.0]}
    failed = row("sparkdrain", "sparkdrain", [1.0], figures=found, problem="FAILED: no end")
    peer = row("x", "beam-spark", [1.0], figures=found)
    assert figures_table([failed]) == ""
    assert "beam-spark" not in figures_table([peer])
    assert "| 5 " in figures_table([failed, peer])
