"""``sparkdrain run``: run a Beam program as ``python`` would, with our runner as the default."""

from __future__ import annotations

import argparse
import os
import runpy
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What can be run."""
    rest = argparse.REMAINDER
    parser.add_argument("-m", dest="module", nargs=rest, help="a module and its arguments")
    parser.add_argument("script", nargs=rest, help="a script and its arguments")
    parser.set_defaults(refuse=parser.error)


def run(arguments: argparse.Namespace) -> int:
    """Run a program, and its arguments, in this process as the main program.

    Pipelines that name a runner keep it; the others get SparkDrainRunner. Ends as the program
    does: with its exceptions and its ``SystemExit``.
    """
    program = arguments.module or arguments.script
    if not program:
        arguments.refuse("name a script, or -m and a module")
    from apache_beam.options.pipeline_options import StandardOptions  # noqa: PLC0415 (slow)

    StandardOptions.DEFAULT_RUNNER = "SparkDrainRunner"
    sys.argv = list(program)
    if arguments.module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(program[0])))
        runpy.run_path(program[0], run_name="__main__")
    return 0
