"""What benchmarks say to a name that they do not know."""

from __future__ import annotations

import argparse

import pytest

from benchmarks import turns
from benchmarks.choice import chosen

JOBS = ["read", "group", "chain"]


def test_names_come_in_the_order_of_the_list_and_once() -> None:
    assert chosen(argparse.ArgumentParser(), "--jobs", "chain,read,chain", JOBS) == [
        "read",
        "chain",
    ]


def test_an_unknown_name_is_named_with_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        chosen(argparse.ArgumentParser(), "--jobs", "read,grup", JOBS)
    assert "--jobs: 'grup' is none of read, group, chain" in capsys.readouterr().err


def test_turns_measure_nothing_before_all_jobs_are_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        turns.main(["--only=chain,nothing", "."])
    assert "'nothing' is none of wordcount" in capsys.readouterr().err
