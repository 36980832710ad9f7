from __future__ import annotations

import argparse
import io

import pytest
from rich.console import Console

from sparkdrain.cli import jobs
from sparkdrain.cli.main import main
from sparkdrain.drain import runs
from sparkdrain.drain.phases import DrainPhase
from sparkdrain.drain.runs import Run


def cli(*arguments: str) -> tuple[int, str]:
    parser = argparse.ArgumentParser()
    jobs.add_arguments(parser)
    written = io.StringIO()
    code = jobs.jobs(parser.parse_args(arguments), Console(file=written, width=200))
    return code, written.getvalue()


def test_runs_of_a_store_are_listed_the_newest_first_with_who_was_asked_to_drain(
    store, address, tmp_path
):
    hour, day = 3600 * 10**6, "1970-01-01"
    old = Run("old", "old", "wc", "", "RUNNING", drain=True, began=hour)
    runs.begin(store, old)
    runs.tell(store, old, "DRAINED")
    runs.begin(store, Run("new", "new", "wc", "", "RUNNING", drain=True, began=2 * hour))
    drained = Run("drained", "drained", "y", "", "RUNNING", drain=True, began=1)
    runs.begin(store, drained)
    runs.tell(store, drained, "DRAINING", DrainPhase.FLUSHING)
    runs.begin(store, Run("deaf", "deaf", "x", "", "RUNNING", drain=False, began=0))
    runs.request(store, "new", 3 * hour)
    for where in (("--metadata_store", address), ("--checkpoint_dir", str(tmp_path))):
        code, said = cli(*where)
        assert code == 0
        rows = [line.split("│")[1:-1] for line in said.splitlines() if line.startswith("│")]
        assert [[cell.strip() for cell in row] for row in rows] == [
            ["new", "wc", "RUNNING", f"{day} 02:00:00 UTC", f"{day} 03:00:00 UTC", "", "yes", ""],
            ["old", "wc", "DRAINED", f"{day} 01:00:00 UTC", "", "", "yes", ""],
            ["drained", "y", "DRAINING", f"{day} 00:00:00 UTC", "", "FLUSHING", "yes", ""],
            ["deaf", "x", "RUNNING", f"{day} 00:00:00 UTC", "", "", "no", ""],
        ]


def test_the_newest_moves_of_runs_that_go_on_are_told(store, address):
    run = Run("mine", "job", "wc", "", "RUNNING", drain=True, began=1)
    runs.begin(store, run)
    for number in range(7):
        runs.moved(store, run, f"[slot {number}] moved")
    _, said = cli("--metadata_store", address)
    assert [line for line in said.splitlines() if "moved" in line] == [
        f"mine: [slot {number}] moved" for number in range(2, 7)
    ]
    runs.tell(store, run, "DONE")
    assert "moved" not in cli("--metadata_store", address)[1]


def test_a_store_without_runs_says_so(store, address):
    assert cli("--metadata_store", address) == (0, "There are no jobs.\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--metadata_store=memory:",), "is inside of the process that runs the job"),
        (("--metadata_store=file:/nowhere/at/all",), "There is no metadata store in /nowhere"),
    ],
)
def test_what_cannot_be_listed_is_told_in_a_line(arguments, told):
    code, said = cli(*arguments)
    assert code == 1
    assert told in said


def test_it_is_a_command_of_its_own(store, address, capsys):
    assert main(["jobs", f"--metadata_store={address}"]) == 0
    assert "There are no jobs." in capsys.readouterr().out
