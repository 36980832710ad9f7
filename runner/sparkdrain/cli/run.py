"""``sparkdrain run``: run a Beam program as ``python`` would, with our runner as the default."""

from __future__ import annotations

import os
import runpy
import sys
from typing import TYPE_CHECKING

from apache_beam.options.pipeline_options import StandardOptions

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(program: Sequence[str], *, as_module: bool) -> None:
    """Run a program, and its arguments, in this process as the main program.

    Pipelines that name a runner keep it; the others get SparkDrainRunner. Ends as the program
    does: with its exceptions and its ``SystemExit``.
    """
    StandardOptions.DEFAULT_RUNNER = "SparkDrainRunner"
    sys.argv = list(program)
    if as_module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(program[0])))
        runpy.run_path(program[0], run_name="__main__")
