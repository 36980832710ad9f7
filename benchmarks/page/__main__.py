"""Command line: `python -m benchmarks.page [--only PARTS] [--scale S] [--minutes M] [--print]`.

Every part is written into docs/benchmarks.md as soon as it is measured. A part that fails, or for
which no time is left, keeps what stood in its place, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.choice import chosen
from benchmarks.page.parts import PARTS
from benchmarks.page.place import put
from benchmarks.plan import ROOT, Plan, fetch_kits
from benchmarks.runners import RUNNERS

PAGE = ROOT / "docs" / "benchmarks.md"
MINUTES, LIMIT = 50.0, 240.0


def main() -> int:
    """Measures and writes; 1 where a part could not be had."""
    options = _options()
    deadline = time.monotonic() + 60 * options.minutes
    kits = fetch_kits(options.cache, RUNNERS)
    plan = Plan(RUNNERS, options.runs, options.scale, LIMIT, options.cache, kits)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    missed = []
    with options.out.open("w", buffering=1, encoding="utf-8") as out:

        def log(event: dict[str, Any]) -> None:
            out.write(json.dumps(event, ensure_ascii=False) + "\n")

        for name in options.only:
            if time.monotonic() > deadline:
                missed.append(f"{name}: no time left of {options.minutes:g} minutes")
                continue
            start, load = time.monotonic(), os.getloadavg()[0]
            print(f"{name} ...", file=sys.stderr, flush=True)
            try:
                text = PARTS[name](plan, log)
            except Exception as e:  # noqa: BLE001 - the other parts are measured all the same
                missed.append(f"{name}: {type(e).__name__}: {e}")
                continue
            took = time.monotonic() - start
            text = f"{_when(plan, load, took)}\n\n{text}"
            if options.print:
                print(f"\n## {name}\n\n{text}", flush=True)
            else:
                put(PAGE, name, text)
            print(f"{name}: {took:.0f} s", file=sys.stderr, flush=True)
    for line in missed:
        print(f"NOT MEASURED: {line}", file=sys.stderr)
    return int(bool(missed))


def _when(plan: Plan, load: float, took: float) -> str:
    commit = ""
    with suppress(OSError, subprocess.CalledProcessError):
        asked = ["git", "rev-parse", "--short", "HEAD"]
        told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
        commit = f" at commit {told.stdout.strip()}"
    scaled = "" if plan.scale == 1 else f" scaled by {plan.scale:g}, not to be quoted,"
    return (
        f"Measured{scaled} on {datetime.now(UTC):%d %B %Y, %H:%M} UTC{commit}, {os.cpu_count()} "
        f"CPUs, load {load:.1f} before and {os.getloadavg()[0]:.1f} after; {took / 60:.0f} minutes."
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on every n (default 1)")
    parser.add_argument("--runs", type=int, default=1, help="batch; streams have twice as many")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="no part begins later")
    parser.add_argument("--print", action="store_true", help="print, and leave the page alone")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "page.jsonl")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache", help="fetched peers, text")
    options = parser.parse_args()
    options.only = chosen(parser, "--only", options.only, list(PARTS))
    options.cache = options.cache.absolute()
    return options


if __name__ == "__main__":
    sys.exit(main())
