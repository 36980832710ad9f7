"""What one benchmark run measures, and with what."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.jobs.work import Work
from benchmarks.peers.fetch import PeerMissing, bytewax_python, job_server_jars, python_sdk
from benchmarks.text import make_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from benchmarks.jobs import Job
    from benchmarks.runners import Runner

ROOT = Path(__file__).parents[1]
_WARM_UP_SHARE = 0.1
# A stream of fewer micro-batches says little about how fast a batch of that size is.
_LEAST_BATCHES = 5


@dataclass(frozen=True, slots=True)
class Kit:
    """What a peer needs, as far as it could be had.

    Attributes:
        python: interpreter with what its programs import; None for ours.
        jars: of its job server, if it has one.
        missing: why there is none; "" where there is.
    """

    python: Path | None
    jars: Path | None
    missing: str = ""


OWN = Kit(None, None)


def fetch_kits(cache: Path, runners: Iterable[Runner]) -> dict[str, Kit]:
    """Fetches what these runners need into `cache`, where it is not there yet."""
    return {needs: _fetch(needs, cache / "peers") for needs in {r.needs for r in runners}}


def _fetch(needs: str, cache: Path) -> Kit:
    try:
        if not needs:
            return OWN
        if needs == "bytewax":
            return Kit(bytewax_python(cache), None)
        jars = job_server_jars(needs, cache)
        return Kit(python_sdk(cache), jars)
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
        kits: what the runners need, by their `needs`.
        checkout: whose code is measured.
    """

    runners: tuple[Runner, ...]
    runs: int
    scale: float
    limit: float
    cache: Path
    kits: Mapping[str, Kit]
    checkout: Path = ROOT

    def runners_of(self, job: Job) -> list[Runner]:
        """Those that the job is measured on."""
        return [runner for runner in self.runners if runner.takes(job)]

    def size(self, job: Job, runner: Runner) -> int:
        """The n of a timed run."""
        return max(1, round(job.size * self.scale * self.share(job, runner)))

    def share(self, job: Job, runner: Runner) -> float:
        """The n of a timed run, relative to the job's: the peer's share, or more."""
        return max(job.share(runner.family), _LEAST_BATCHES * runner.rows / job.size)

    def warm_up_size(self, job: Job, runner: Runner) -> int:
        """The n of the first run, which only warms up."""
        return max(1, round(self.size(job, runner) * _WARM_UP_SHARE))

    def work(self, job: Job, n: int, out: Path) -> Work:
        """The work of one run; makes its text, if it has one, and its directory."""
        text = make_text(self.cache / "text", n) if job.of_text else Path()
        out.mkdir()
        return Work(n, job.keys_for(n), text, out)

    def obstacle(self, runner: Runner) -> str:
        """Why nothing can be measured on this runner; "" where it can."""
        missing = self.kits[runner.needs].missing
        return f"MISSING: {missing}" if missing else ""

    def command(self, job: Job, runner: Runner) -> list[str]:
        """Command line of a session."""
        kit = self.kits[runner.needs]
        python = str(kit.python or sys.executable)
        named = [f"--job={job.name}", f"--runner={runner.name}"]
        if kit.jars:
            named.append(f"--jars={kit.jars}")
        return [python, "-m", "benchmarks.session", *named]

    def environment(self, runner: Runner) -> Mapping[str, str]:
        """Where a session finds our modules; nothing of this venv for another."""
        paths = [str(self.checkout)]
        if not runner.needs:
            paths += [
                str(self.checkout / "runner"),
                *os.environ.get("PYTHONPATH", "").split(os.pathsep),
            ]
        return {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
