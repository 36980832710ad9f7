"""What one benchmark run measures, and with what."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.jobs.work import Work
from benchmarks.peers.fetch import PeerMissing, job_server_jars, python_sdk
from benchmarks.text import make_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.jobs import Job
    from benchmarks.runners import Runner

ROOT = Path(__file__).parents[1]
_WARM_UP_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Kit:
    """What the peers need, as far as it could be had.

    Attributes:
        python: interpreter with the SDK of Beam's Spark runner.
        jars: of its job server.
        missing: why there is none; "" where there is.
    """

    python: Path | None
    jars: Path | None
    missing: str = ""


def fetch_kit(cache: Path, runners: tuple[Runner, ...]) -> Kit:
    """Fetches what these runners need into `cache`, where it is not there yet."""
    if not any(runner.java_sdk for runner in runners):
        return Kit(None, None)
    try:
        jars = job_server_jars(cache / "peers")
        return Kit(python_sdk(cache / "peers"), jars)
    except PeerMissing as e:
        return Kit(None, None, str(e))


@dataclass(frozen=True, slots=True)
class Plan:
    """One benchmark run.

    Attributes:
        runners: to measure.
        runs: timed runs of each job on each runner.
        scale: factor on every n.
        limit: seconds after which a run, or the opening of a runner, is given up.
        cache: directory for fetched peers and generated text.
        kit: what the peers need.
    """

    runners: tuple[Runner, ...]
    runs: int
    scale: float
    limit: float
    cache: Path
    kit: Kit

    def size(self, job: Job, runner: Runner) -> int:
        """The n of a timed run."""
        return max(1, round(job.size * self.scale * job.share(runner.name)))

    def warm_up_size(self, job: Job, runner: Runner) -> int:
        """The n of the first run, which only warms up."""
        return max(1, round(self.size(job, runner) * _WARM_UP_SHARE))

    def work(self, job: Job, n: int, out: Path) -> Work:
        """The work of one run; makes its text, if it has one, and its directory."""
        text = make_text(self.cache / "text", n) if job.of_text else Path()
        out.mkdir()
        return Work(n, job.keys_for(n), text, out)

    def obstacle(self, job: Job, runner: Runner) -> str:
        """Why this job cannot be measured on this runner; "" where it can."""
        if runner.java_sdk and self.kit.missing:
            return f"MISSING: {self.kit.missing}"
        if runner.name == "pyspark" and not job.by_hand:
            return "- (not written by hand)"
        return ""

    def command(self, job: Job, runner: Runner) -> list[str]:
        """Command line of a session."""
        python = str(self.kit.python) if runner.java_sdk else sys.executable
        named = [f"--job={job.name}", f"--runner={runner.name}"]
        if runner.java_sdk:
            named.append(f"--jars={self.kit.jars}")
        return [python, "-m", "benchmarks.session", *named]

    def environment(self, runner: Runner) -> Mapping[str, str]:
        """Where a session finds our modules; nothing of this venv for another SDK's."""
        paths = [str(ROOT)]
        if not runner.java_sdk:
            paths += [str(ROOT / "runner"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        return {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
