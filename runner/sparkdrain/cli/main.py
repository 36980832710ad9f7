"""The command ``sparkdrain`` and its subcommands."""

from __future__ import annotations

import argparse
import importlib
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# Commands with arguments of their own: the line in the list of commands, and the page's first line.
_OWN: Final = {
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


@dataclass(frozen=True, slots=True)
class _Commands:
    """The parser of everything, and those of commands that have arguments of their own."""

    all: argparse.ArgumentParser
    run: argparse.ArgumentParser
    own: Mapping[str, argparse.ArgumentParser]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; the answer is the exit code."""
    commands = _commands()
    for name in (arguments if arguments is not None else sys.argv[1:])[:1]:
        if name in commands.own:
            # A module of that name. What is asked of it needs Beam, which takes a second to import.
            module = importlib.import_module(f"sparkdrain.cli.{name}")
            module.add_arguments(commands.own[name])
            return int(getattr(module, name)(commands.all.parse_args(arguments)))
    parsed = commands.all.parse_args(arguments)
    if parsed.command == "doctor":
        from sparkdrain.cli.doctor import doctor  # noqa: PLC0415 (works without Beam)

        return doctor()
    if parsed.command == "prepare":
        from sparkdrain.cli.prepare import prepare  # noqa: PLC0415 (imports Spark)

        return prepare()
    if not (parsed.module or parsed.script):
        commands.run.error("name a script, or -m and a module")
    from sparkdrain.cli.run import run  # noqa: PLC0415 (imports Beam)

    run(parsed.module or parsed.script, as_module=bool(parsed.module))
    return 0


def _commands() -> _Commands:
    parser = argparse.ArgumentParser(
        prog="sparkdrain", description="Apache Beam pipelines on Spark, from Python."
    )
    commands = parser.add_subparsers(title="commands", dest="command", required=True)
    program = commands.add_parser(
        "run",
        help="run a Beam program on Spark without changing it",
        description="Run a Beam program; pipelines in it that name no runner run on Spark.",
    )
    rest = argparse.REMAINDER
    program.add_argument("-m", dest="module", nargs=rest, help="a module and its arguments")
    program.add_argument("script", nargs=rest, help="a script and its arguments")
    commands.add_parser("doctor", help="check that this machine has what the runner needs")
    commands.add_parser(
        "prepare",
        help="have Spark start faster from now on (takes half a minute, and 90 MB)",
        description="Write Spark's classes to a file in this Python environment that Java maps.",
    )
    own = {
        name: commands.add_parser(name, help=help_, description=description)
        for name, (help_, description) in _OWN.items()
    }
    return _Commands(parser, program, own)


if __name__ == "__main__":
    sys.exit(main())
