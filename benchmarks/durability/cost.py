"""What checkpoints or standby drivers cost a job with much state, in percent of its throughput.

Run: ``python -m benchmarks.durability.cost [--of checkpoints] [--state-mb 1000] [--changing 1.0]
[--seconds 60] [--turns 3]``, on Linux. Two jobs are started that differ in ``--checkpoint_dir``
alone, or with ``--of standby`` in ``--standby`` and a metadata store alone, with checkpoints in
both. First each builds its state, which is not timed. Then they take turns: one flows, as fast as
it can, while the other rests. Every element reads the state of a key, drawn at random from those
that are ``--changing``, and writes another.

``cost`` compares each turn with the turn of the other job that is next to it: elements a second,
and CPU time per element. On a busy machine the second one is steadier; it does not know of waiting
for disks. The median of the pairs counts, since what others do on the machine changes from pair to
pair. A turn begins after a checkpoint, so what the last one costs that begins in it may be outside:
take long turns.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.durability.arm import Arm

if TYPE_CHECKING:
    from collections.abc import Sequence

GOALS = {"checkpoints": 0.10, "standby": 0.01}
_HEADINGS = ("job", "elements/s", "CPU us/element", "checkpoints", "uploaded MB", "load")


def tell(arms: Sequence[Arm], goal: float) -> None:
    """Prints what the second arm's options cost: medians over turns, and over pairs of turns."""
    for arm in arms:
        rate = statistics.median(segment.rate for segment in arm.segments)
        cpu = statistics.median(segment.cpu for segment in arm.segments)
        print(f"{arm.name}: {rate:,.0f} elements/s, {cpu:.1f} us of CPU each")
    pairs = list(zip(*(arm.segments for arm in arms), strict=True))
    cost = statistics.median(1 - with_.rate / without.rate for without, with_ in pairs)
    cpu = statistics.median(with_.cpu / without.cpu - 1 for without, with_ in pairs)
    verdict = "met" if cost < goal else "NOT MET"
    print(f"cost: {cost:.1%} of elements/s (below {goal:.0%}: {verdict}), ", end="")
    print(f"{cpu:+.1%} of CPU time per element (medians over pairs of turns)")


def options_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.durability.cost")
    parser.add_argument("--of", choices=GOALS, default="checkpoints", help="(default checkpoints)")
    parser.add_argument("--state-mb", type=int, default=1000, help="over all keys (default 1000)")
    parser.add_argument("--value-bytes", type=int, default=1000, help="of a key (default 1000)")
    parser.add_argument("--changing", type=float, default=1.0, help="part of the keys (default 1)")
    parser.add_argument("--seconds", type=float, default=60, help="of a turn (default 60)")
    parser.add_argument("--turns", type=int, default=3, help="of each job (default 3)")
    parser.add_argument("--checkpoint-ms", type=int, default=10_000, help="default 10000")
    return parser.parse_args(arguments)


def ways(options: argparse.Namespace, home: Path) -> dict[str, list[str]]:
    """What each of the two jobs is told, by its name."""

    def durable(name: str) -> list[str]:
        folder = home / name / "checkpoints"
        return [f"--checkpoint_dir={folder}", f"--checkpoint_ms={options.checkpoint_ms}"]

    if options.of == "checkpoints":
        return {"without": [], "with": durable("with")}
    standing = ["--standby", f"--metadata_store=file:{home}/store"]
    return {"without": durable("without"), "with": [*durable("with"), *standing]}


def main() -> None:
    options = options_of()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    keys = options.state_mb * 1_000_000 // (options.value_bytes + len("key-0123456789")) // 8 * 8
    changing = max(8, int(keys * options.changing))
    job = [str(keys), str(changing), str(options.value_bytes)]
    print(f"{keys:,} keys of {options.value_bytes} bytes, of which {changing:,} change")
    print(
        f"turns of {options.seconds:g} s; a checkpoint every {options.checkpoint_ms} ms\n",
        flush=True,
    )
    with tempfile.TemporaryDirectory(prefix="cost-", ignore_cleanup_errors=True) as home:
        arms = []
        try:
            for name, more in ways(options, Path(home)).items():
                arms.append(Arm(name, Path(home) / name, more, job, options.seconds))
                arms[-1].wait_built(keys)
            print(" | ".join(_HEADINGS))
            for turn in range(options.turns):
                for arm in arms if turn % 2 == 0 else arms[::-1]:
                    done = arm.flow()
                    numbers = f"{done.rate:,.0f} | {done.cpu:.1f} | {done.checkpoints}"
                    uploaded = f"{done.uploaded / 1e6:,.0f} | {done.load:.1f}"
                    print(f"{arm.name} | {numbers} | {uploaded}", flush=True)
            print()
        finally:
            for arm in arms:
                arm.close()
    tell(arms, GOALS[options.of])


if __name__ == "__main__":
    main()
