"""How a drain ends a streaming job, and what Structured Streaming leaves inside of a query.

Run: ``python -m benchmarks.drain [--only idle,inside,flow,left] [--n 1000000]``, on Linux. Each job
has a process of its own, with all that it starts, one after the other:

- ``idle``: a job that has read all there is and rests is drained, without and with checkpoints;
- ``inside``: the same with very many windows, and with very many timers, that are open;
- ``flow``: a job is drained while it reads from a source that has an end, which a drain goes on to;
- ``left``: Structured Streaming counts the elements of ``inside`` in the same windows. What is in
  its state when the query has ended was never emitted;
- ``left-timers``, if asked for: the same with a tenth of them, by ``transformWithState``, until a
  timer fires.

The sums of all that comes out are compared with what was put in, for both.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.choice import chosen
from benchmarks.drain import waiting
from benchmarks.drain.job import DRAINING
from benchmarks.process_tree import VARIABLE, Tree

PARTS = ("idle", "inside", "flow", "left")
# Spark gives a worker in Python ten seconds to start, which a busy machine does not.
IF_ASKED = ("left-timers",)
ROOT = Path(__file__).resolve().parents[2]
IDLE_SECONDS, RATE_GOAL = 3.0, 100_000
_IDLE_ELEMENTS = 1000
_PER_KEY = 10
# Timers of Structured Streaming are set from Python, key by key.
_FEWER = 10
_FLOW_KEYS = 1000
_LOOK_SECONDS = 0.25
_LOG_TAIL = 2000


def run(module: str, *arguments: object) -> dict[str, Any]:
    """What a program says in its last line of JSON, and what its processes took.

    That is the most memory, and CPU seconds while it was drained.
    """
    mark = f"drain-{os.getpid()}-{time.monotonic_ns()}"
    tree = Tree(mark)
    peak = 0
    before: float | None = None
    with tempfile.TemporaryDirectory(prefix="drain-", ignore_cleanup_errors=True) as home:
        places = [str(a).replace("HOME", home) for a in arguments]
        with (Path(home) / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *places],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, VARIABLE: mark, "TMPDIR": home},
                cwd=ROOT,
                start_new_session=True,
            )
        try:
            while process.poll() is None:
                tree.look()
                if before is None and (Path(home) / DRAINING).exists():
                    before = tree.cpu
                peak = max(peak, tree.rss)
                time.sleep(_LOOK_SECONDS)
        finally:
            tree.kill()
            process.wait()
        text = (Path(home) / "log").read_text(encoding="utf-8", errors="replace")
    # What ends after it may have said something, too.
    said = next((line for line in reversed(text.splitlines()) if line.startswith("{")), "")
    if process.returncode or not said:
        message = f"{module} {' '.join(places)} failed; its log ends:\n{text[-_LOG_TAIL:]}"
        raise RuntimeError(message)
    spent = 0.0 if before is None else tree.cpu - before
    return {**json.loads(said), "peak": peak, "cpu": spent}


@cache
def drained(kind: str, n: int, keys: int, *options: str) -> dict[str, Any]:
    """Drains a job of ``waiting``; RuntimeError unless everything came out."""
    said = run("benchmarks.drain.job", kind, n, keys, "HOME", *options)
    if said["state"] != "DRAINED" or not said["right"]:
        message = f"{kind}: the job ended as {said['state']}, its results right: {said['right']}"
        raise RuntimeError(message)
    return said


def tell_idle() -> None:
    """How long a job takes that has next to nothing inside."""
    print(f"\nidle job ({_IDLE_ELEMENTS:,} open windows), from the request to DRAINED")
    for name, options in (
        ("without checkpoints", []),
        ("with checkpoints", ["--checkpoint_dir=HOME/kept"]),
    ):
        seconds = drained("windows", _IDLE_ELEMENTS, _IDLE_ELEMENTS, *options)["seconds"]
        goal = f"goal: {IDLE_SECONDS:g} s and one checkpoint" if options else ""
        said = goal or _verdict(seconds <= IDLE_SECONDS)
        print(f"  {name:<28} {seconds:>8.2f} s   {said}", flush=True)


def tell_inside(n: int) -> None:
    """How fast windows and timers come out that are open."""
    print(f"\n{n:,} open, from the request to DRAINED")
    for name, kind, keys in (
        ("windows, one of each key", "windows", n),
        (f"timers, {_PER_KEY} of each key", "timers", n // _PER_KEY),
        ("timers, one of each key", "timers", n),
        ("the same, without a tag", "plain timers", n),
    ):
        said = drained(kind, n, keys)
        rate = n / said["seconds"]
        memory = f"{said['DoFn process at peak (MB)']:,.0f} MB at most in a process of state"
        all_of_it = f"{said['peak'] / 1e6:,.0f} MB in all, JVM included"
        cpu = f"{1e6 * said['cpu'] / n:.1f} us of CPU each"
        speed = f"{said['seconds']:>8.2f} s {rate:>10,.0f}/s"
        print(
            f"  {name:<28} {speed}   {_verdict(rate >= RATE_GOAL)}   {cpu}, {memory}, {all_of_it}"
        )
        sys.stdout.flush()


def tell_flow(n: int) -> None:
    """Whether a job is slower while it is drained."""
    said = drained("reading", n, _FLOW_KEYS)
    print(f"\n{n:,} elements, drained after two fifths of them")
    print(f"  {'before':<28} {said['before']:>10,.0f} elements/s")
    ok = _verdict(said["while"] >= said["before"])
    print(f"  {'while draining':<28} {said['while']:>10,.0f} elements/s   {ok}", flush=True)


def tell_left(n: int) -> None:
    """What Structured Streaming leaves inside; ours has to emit the same, with nothing left."""
    drained("windows", n, n)
    _tell_left("windows", n, "in as many windows")


def tell_left_timers(n: int) -> None:
    """The same of timers."""
    fewer = max(1, n // _FEWER)
    drained("timers", fewer, fewer)
    _tell_left("timers", fewer, "of as many keys with a timer each (transformWithState)")


def _tell_left(kind: str, n: int, what: str) -> None:
    whole = waiting.expected(n, n, counts=True)
    said = run("benchmarks.drain.left", kind, n, n, "HOME")
    print(f"\nStructured Streaming, {n:,} elements {what}")
    for name, way in (("query.stop()", "stop"), ("Trigger.AvailableNow", "available_now")):
        emitted, left = said[way]["emitted"], said[way]["left"]
        if [sum(pair) for pair in zip(emitted, left, strict=True)] != whole:
            message = f"{name}: {emitted} emitted and {left} left are not {whole}"
            raise RuntimeError(message)
        print(f"  {name:<28} {emitted[0]:>10,} {kind} emitted, {left[0]:,} left inside")
    print(f"  {'drain, with the same sums':<28} {n:>10,} {kind} emitted, 0 left inside", flush=True)


def _verdict(reached: bool) -> str:
    return "met" if reached else "NOT MET"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.drain")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, by comma")
    parser.add_argument("--n", type=int, default=1_000_000, help="windows and timers (1000000)")
    parser.add_argument("--flow", type=int, default=5_000_000, help="elements (5000000)")
    options = parser.parse_args()
    parts = chosen(parser, "--only", options.only, [*PARTS, *IF_ASKED])
    # Whoever ends this program ends the job that runs.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    print(f"load {os.getloadavg()[0]:.1f}")
    if "idle" in parts:
        tell_idle()
    if "inside" in parts:
        tell_inside(options.n)
    if "flow" in parts:
        tell_flow(options.flow)
    if "left" in parts:
        tell_left(options.n)
    if "left-timers" in parts:
        tell_left_timers(options.n)
    print(f"\nload {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
