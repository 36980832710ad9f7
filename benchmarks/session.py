"""Child process: keeps one runner warm and runs one job on it whenever the driver says so.

Each line on standard input is an order, `{"n": ..., "keys": ..., "text": ..., "out": ...}`; each
line on the reply pipe is `{"ready": true}`,
`{"seconds": ..., "result": [...], "figures": {...}}` or `{"error": "..."}`, after which the process
ends. Standard output and error are the log.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks.jobs import Job, job_module, job_named
from benchmarks.jobs.work import Work
from benchmarks.runners import Runner, open_runner, runner_named

_ERROR_LENGTH = 2000


def main() -> None:
    """Serves orders until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", required=True)
    parser.add_argument("--runner", required=True)
    parser.add_argument("--jars", type=Path)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--reply", type=int, required=True, help="file descriptor")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    with os.fdopen(options.reply, "w", buffering=1, encoding="utf-8") as reply:

        def say(**message: Any) -> None:
            reply.write(json.dumps(message) + "\n")

        try:
            _serve(options, say)
        except BaseException as e:  # whatever ends the session is its row's reason
            logging.exception("the session ends")
            say(error=f"{type(e).__name__}: {e}"[-_ERROR_LENGTH:])
            sys.exit(1)


def _serve(options: argparse.Namespace, say: Any) -> None:
    job = job_named(options.job)
    runner = runner_named(options.runner)
    with open_runner(runner, options.jars, options.directory) as run:
        say(ready=True)
        for line in sys.stdin:
            order = json.loads(line)
            work = Work(order["n"], order["keys"], Path(order["text"]), Path(order["out"]))
            seconds, result = run(job, work)
            say(seconds=seconds, result=result, figures=_figures(job, runner, work))


def _figures(job: Job, runner: Runner, work: Work) -> dict[str, float]:
    if not (job.has_figures and runner.runs_beam):
        return {}
    found: dict[str, float] = job_module("jobs", job).figures(work)
    return found


if __name__ == "__main__":
    main()
