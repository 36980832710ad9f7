"""How long a store takes to open that holds very many keys, and what a process takes with it.

Run: ``python -m benchmarks.store_open [keys]`` (1,000,000 if not told). Keys with a value and a
timer are written in rounds, as a streaming job does; then a new process opens the store, asks for
the earliest timer and reads some keys.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from pathlib import Path

from timers_state import Domain, Overlay, open_store

BUDGET = 64 << 20
PER_ROUND = 100_000
STATE = 7
READS = 1000


def fill(directory: str, keys: int) -> None:
    """Writes the keys and says what this process took."""
    start = time.perf_counter()
    overlay = Overlay(open_store(Path(directory)), BUDGET)
    for first in range(0, keys, PER_ROUND):
        for number in range(first, min(first + PER_ROUND, keys)):
            scope = overlay.scope(STATE, _key(number))
            scope.value(b"v").set(b"%020d" % number)
            scope.timers(Domain.EVENT).set(number, b"t")
        overlay.prepare()
        overlay.commit()
    overlay.flush()
    _say(f"write, {PER_ROUND:,} to a round", start)
    start = time.perf_counter()
    overlay.close()
    _say("close", start)
    sys.stdout.flush()


def reopen(directory: str, keys: int) -> None:
    """Opens the store in this, a new process."""
    start = time.perf_counter()
    store = open_store(Path(directory))
    overlay = Overlay(store, BUDGET)
    _say("open", start)
    start = time.perf_counter()
    assert overlay.first_time(STATE, Domain.EVENT) == 0
    _say("earliest timer of all keys", start)
    start = time.perf_counter()
    for number in range(0, keys, max(1, keys // READS)):
        assert overlay.scope(STATE, _key(number)).value(b"v").get() == b"%020d" % number
    _say(f"read {READS} keys", start)
    overlay.close()
    sys.stdout.flush()


def _key(number: int) -> bytes:
    return b"key-%010d" % number


def _say(what: str, start: float) -> None:
    seconds = time.perf_counter() - start
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
    print(f"{what:<40} {seconds:>8.2f} s   process at peak {peak / 1e6:>6,.0f} MB")


def main() -> None:
    keys = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    print(f"{keys:,} keys, a value and a timer each; {BUDGET >> 20} MiB for what is unwritten")
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as directory:
        for step in (fill, reopen):
            process = context.Process(target=step, args=(f"{directory}/store", keys))
            process.start()
            process.join()
            if process.exitcode:
                sys.exit(process.exitcode)


if __name__ == "__main__":
    main()
