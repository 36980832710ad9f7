"""What the program that compares environments makes of its measurements."""

from __future__ import annotations

from benchmarks.child import Measured
from benchmarks.environments.tables import costs_table, ratios_table
from benchmarks.environments.track import Found
from benchmarks.environments.ways import CONTESTS

JAVA = next(contest for contest in CONTESTS if contest.name == "java")


def measured(seconds: float, cpu: float) -> Measured:
    return Measured(seconds, cpu, 0, 2.0, [])


def cells(table: str, name: str) -> list[str]:
    line = next(line for line in table.splitlines() if name in line)
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_a_further_element_costs_what_a_larger_run_takes_more() -> None:
    small = [measured(2.0, 5.0), measured(2.2, 6.0), measured(9.0, 5.5)]
    large = [measured(4.2, 9.5), measured(4.0, 9.5), measured(4.6, 9.0)]
    found = Found("group", JAVA.ours, 1_100_000, 100_000, large, small)
    assert round(found.micros or 0, 6) == 2.0
    assert round(found.cpu_micros or 0, 6) == 4.0
    assert round(found.rate or 0) == round(1_100_000 / 4.2)


def test_ratios_are_by_rate_by_further_element_and_by_cpu() -> None:
    ours = Found("state", JAVA.ours, 1000, 100, [measured(2.0, 1.0)], [measured(1.1, 0.1)])
    peer = JAVA.theirs[0]
    theirs = Found("state", peer, 100, 10, [measured(4.0, 2.0)], [measured(3.1, 0.2)])
    table = ratios_table([JAVA], [ours, theirs])
    assert cells(table, peer.name)[4:] == [
        *("4.0", "25", "10,000", "20,000"),
        *("20", "10", "20", "\u2265 3", "2.0"),
    ]
    assert cells(table, JAVA.ours.name)[8:] == ["", "", "", "", "2.0"]


def test_a_setting_that_fails_says_why_and_its_costs_are_unknown() -> None:
    failed = Found("state", JAVA.ours, 1000, 100, problem="no\nJava")
    assert "no Java" in cells(ratios_table([JAVA], [failed]), JAVA.ours.name)
    assert cells(costs_table([JAVA], [failed]), "Java") == ["Java", "-"]
