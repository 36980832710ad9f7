from __future__ import annotations

import argparse
import re

import pytest

from sparkdrain.cli import server
from sparkdrain.cli.main import main
from sparkdrain.server.settings import jobs_that_fit, usual_directory
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/server.md").read_text(encoding="utf-8")


def flags() -> list[str]:
    parser = argparse.ArgumentParser(add_help=False)
    server.add_arguments(parser)
    return [action.option_strings[0] for action in parser._actions]


@pytest.mark.parametrize("flag", flags())
def test_every_option_is_on_the_page(flag):
    assert f"`{flag}" in PAGE


def test_page_and_help_say_the_same_of_the_memory_of_a_spare_driver():
    parser = argparse.ArgumentParser(add_help=False)
    server.add_arguments(parser)
    (told,) = re.findall(r"takes\s+about\s+(\d+)\s+MB", parser.format_help())
    assert f"it takes about {told} MB" in PAGE


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--job-port", "x"], "'x' is no port"),
        (["--job-port", "65536"], "a number from 0 to 65535"),
        (["--max-jobs", "0"], "give 1 or more"),
    ],
)
def test_an_option_that_does_not_parse_is_refused(arguments, told, capsys):
    with pytest.raises(SystemExit):
        main(["server", *arguments])
    assert told in capsys.readouterr().err


def test_an_address_that_strangers_reach_is_refused_with_what_to_do(capsys):
    assert main(["server", "--job-port=0", "--host=0.0.0.0"]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "other machines could run code as this user" in shown
    assert "--insecure" in shown


def test_as_many_jobs_run_as_cores_and_memory_allow():
    assert jobs_that_fit(cores=8, memory_mb=64_000) == 8
    assert jobs_that_fit(cores=8, memory_mb=10_000) == 3
    assert jobs_that_fit(cores=1, memory_mb=1_000) == 1


def test_a_server_at_a_port_finds_its_directory_again():
    environ = {"XDG_STATE_HOME": "/state"}
    assert usual_directory(8099, environ) == "/state/sparkdrain/server-8099"
    assert usual_directory(0, environ) == ""
