"""Command line: ``python -m benchmarks.environments [--only CONTESTS] [--jobs JOBS] ...``.

Each contest keeps a session for each setting of it, which has a small run first to warm up. Then a
job has a small and a large run, in turns of all settings. What a further element costs is the
difference of both by that of their sizes: starts of processes are in both.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.choice import chosen
from benchmarks.environments.programs import build
from benchmarks.environments.tables import costs_table, ratios_table
from benchmarks.environments.track import Track
from benchmarks.environments.ways import CONTESTS, PEER
from benchmarks.jobs.outside import OUTSIDE
from benchmarks.peers.fetch import PeerMissing, job_server_jars, own_python, python_sdk
from benchmarks.plan import ROOT, Kit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.environments.track import Found
    from benchmarks.environments.ways import Contest
    from benchmarks.jobs import Job


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints; 1 where a setting of this runner has no figure, else 0."""
    options = _options(arguments)
    contests = [contest for contest in CONTESTS if contest.name in options.only]
    if options.alone:
        contests = [replace(contest, theirs=()) for contest in contests]
    cache = options.cache.absolute()
    kits = _kits(contests, cache)
    print(_heading(options), flush=True)
    found: list[Found] = []
    for contest in contests:
        print(f"  {contest.name}", file=sys.stderr, flush=True)
        found += _measure(contest, kits, cache / "programs", options)
    print(f"\n{ratios_table(contests, found)}\n\n{costs_table(contests, found)}", flush=True)
    return int(any(each.problem and each.way.family != PEER for each in found))


def _measure(
    contest: Contest, kits: dict[str, Kit], programs: Path, options: argparse.Namespace
) -> list[Found]:
    if contest.ours.language != "python":
        try:
            build(contest.ours.language, programs)
        except PeerMissing as error:
            kits = dict.fromkeys(kits, Kit(None, None, str(error)))
    ways = (contest.ours, *contest.theirs)
    tracks = [Track(way, kits[way.family], programs, options.limit, contest.rest) for way in ways]
    found: list[Found] = []
    try:
        for track in tracks:
            track.open()
        for job in OUTSIDE:
            if job.name in options.jobs:
                scaled = replace(job, size=round(job.size * options.scale))
                found += _measure_job(scaled, contest, tracks, options.runs)
    finally:
        for track in tracks:
            track.close()
    return found


def _measure_job(job: Job, contest: Contest, tracks: Sequence[Track], runs: int) -> list[Found]:
    for track in tracks:
        is_peer = track.way.family == PEER
        track.begin(job, contest.shares.get(job.name, 1.0) if is_peer else 1.0)
    for turn in range(runs):
        for i in range(len(tracks)):
            tracks[(i + turn) % len(tracks)].run()
    found = [track.found() for track in tracks]
    for each in found:
        seconds = [f"{run.seconds:.1f} s" for run in each.runs]
        said = each.problem[:500] or f"{', '.join(seconds)} for {each.n:,}"
        print(f"    {each.job} {each.way.name}: {said}", file=sys.stderr, flush=True)
    return found


def _kits(contests: Sequence[Contest], cache: Path) -> dict[str, Kit]:
    peers = cache / "peers"
    own = _kit(lambda: Kit(own_python(ROOT, peers), None))
    kits = dict.fromkeys({contest.ours.family for contest in contests}, own)
    if any(contest.theirs for contest in contests):
        kits[PEER] = _kit(
            lambda: Kit(python_sdk(peers), job_server_jars("spark-job-server", peers))
        )
    return kits


def _kit(fetch: Callable[[], Kit]) -> Kit:
    try:
        return fetch()
    except PeerMissing as error:
        return Kit(None, None, str(error))


def _heading(options: argparse.Namespace) -> str:
    return (
        f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} at the start; scale "
        f"{options.scale:g}, {options.runs} timed runs, medians"
    )


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.environments", description=__doc__)
    contests = [contest.name for contest in CONTESTS]
    jobs = [job.name for job in OUTSIDE]
    for option, known in (("--only", contests), ("--jobs", jobs)):
        parser.add_argument(option, default=",".join(known), help=f"of {','.join(known)}")
    parser.add_argument("--runs", type=int, default=1, help="timed runs of each job")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on every n")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of a run at most")
    parser.add_argument("--alone", action="store_true", help="without the peer")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache", help="what was fetched")
    options = parser.parse_args(arguments)
    options.only = chosen(parser, "--only", options.only, contests)
    options.jobs = chosen(parser, "--jobs", options.jobs, jobs)
    return options


if __name__ == "__main__":
    sys.exit(main())
