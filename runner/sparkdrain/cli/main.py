"""The command ``sparkdrain`` and its subcommands."""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence


# The line in the list of commands, and the first line of a command's page.
_COMMANDS: Final = {
    "run": (
        "run a Beam program on Spark without changing it",
        "Run a Beam program; pipelines in it that name no runner run on Spark.",
    ),
    "doctor": ("check that this machine has what the runner needs", None),
    "prepare": (
        "have Spark start faster from now on (takes half a minute, and 90 MB)",
        "Write Spark's classes to a file in this Python environment that Java maps.",
    ),
    "checkpoints": (
        "list, verify or inspect the checkpoints of streaming jobs",
        "Look at the checkpoints of streaming jobs; changes nothing.",
    ),
    "drain": (
        "end a streaming job with nothing lost and nothing left inside",
        "Ask a job to stop reading, to let out all that it has read, and to end.",
    ),
    "jobs": (
        "list jobs and runs with their states",
        "List the jobs of a job service, or the runs that a metadata store knows.",
    ),
    "server": (
        "run a Job service at an address, for any SDK",
        "Take pipelines by Beam's Job API, and run each in a process of its own.",
    ),
    "state": (
        "list or remove state that this host keeps in --state_dir",
        "List what a host keeps of published state, and remove what no running job needs.",
    ),
    "worker": (
        "run Beam's Python SDK harness; the command of a PROCESS environment",
        "Run Beam's Python SDK harness. Slots start it, and add the arguments.",
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; the answer is the exit code."""
    parser = argparse.ArgumentParser(
        prog="sparkdrain", description="Apache Beam pipelines on Spark, from Python."
    )
    commands = parser.add_subparsers(title="commands", dest="command", required=True)
    parsers = {
        name: commands.add_parser(name, help=help_, description=description)
        for name, (help_, description) in _COMMANDS.items()
    }
    for name in (arguments if arguments is not None else sys.argv[1:])[:1]:
        if name in parsers:
            # Not for other commands: most need Beam, which takes a second to import.
            module = importlib.import_module(f"sparkdrain.cli.{name}")
            if hasattr(module, "add_arguments"):
                module.add_arguments(parsers[name])
            return int(getattr(module, name)(parser.parse_args(arguments)))
    parser.parse_args(arguments)  # prints help, or what is wrong with the arguments
    return 2


if __name__ == "__main__":
    sys.exit(main())
