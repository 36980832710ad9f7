"""What a checkpoint uploads after a part of the keys changed, and what it keeps.

Run: ``python -m benchmarks.durability.changes [--state-mb 500] [--value-bytes 1000]``. The store of
one slot is filled with keys that have a value each; then, time and again, some of them, drawn at
random, get another value, and a checkpoint is uploaded to a local folder. Between two checkpoints
RocksDB has time to finish what it does in the background, as it has in ten seconds.

CPU time is told per key that changed, as medians: of the snapshot, in the slot's own thread and in
the process, and of the process until the snapshot is uploaded. Merging tables is not in it, nor is
what was written before the snapshot since memory had no room for it (``--budget-mb``).
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sparkdrain.checkpoints.local_storage import LocalStorage
from sparkdrain.checkpoints.paths import Paths
from sparkdrain.checkpoints.upload import Bringer, Destination
from timers_state import Overlay, RoundStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BUDGET = 64 << 20
STATE = 7
PER_ROUND = 20_000
QUIET_LOOKS = 10
PARTS = ((0.01, 50), (0.05, 25), (0.2, 12))
"""How much changes between two checkpoints, and how many of them there are."""
_HEADINGS = ("changed", "changed MB", "median MB", "mean MB", "most MB", "mean / changed")
_MORE = ("mean / state", "kept / state", "ms in the slot", "us in the slot", "us", "us uploaded")


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much state there is.

    Attributes:
        keys: that have a value.
        value: bytes in each.
    """

    keys: int
    value: int

    @property
    def state(self) -> int:
        """Bytes of all keys and values."""
        return self.keys * (len(key_of(0)) + self.value)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What one took.

    Attributes:
        brought: bytes that were uploaded.
        kept: bytes of all its files.
        seconds: of the snapshot.
        cpu: seconds of CPU time: of the snapshot in its thread, of the snapshot, of all.
    """

    brought: int
    kept: int
    seconds: float
    cpu: tuple[float, float, float]


def key_of(number: int) -> bytes:
    return b"key-%010d" % number


def write(overlay: Overlay, numbers: Iterable[int], size: int, source: random.Random) -> None:
    """Gives keys another value, in rounds; values cannot be compressed."""
    for count, number in enumerate(numbers, 1):
        overlay.scope(STATE, key_of(number)).value(b"v").set(source.randbytes(size))
        if count % PER_ROUND == 0:
            end_round(overlay)
    end_round(overlay)


def end_round(overlay: Overlay) -> None:
    overlay.prepare()
    overlay.commit()


def settle(store: RoundStore) -> None:
    """Waits until RocksDB has done nothing for a while."""
    if store._store is None:  # noqa: SLF001 - all of it fits into memory
        return
    db = store._store._db  # noqa: SLF001
    names = ("num-running-compactions", "num-running-flushes")
    quiet = 0
    while quiet < QUIET_LOOKS:
        quiet = 0 if any(db.property_int_value(f"rocksdb.{name}") for name in names) else quiet + 1
        time.sleep(0.01)


def build(directory: Path, sizes: Sizes, source: random.Random) -> None:
    """Makes a store with all keys in ``directory``."""
    store = RoundStore(directory.with_name("filled"))
    overlay = Overlay(store, BUDGET)
    write(overlay, range(sizes.keys), sizes.value, source)
    settle(store)
    overlay.snapshot(directory)
    overlay.close()


def measure(built: Path, part: float, checkpoints: int, sizes: Sizes, budget: int) -> None:
    """Prints a row: what checkpoints uploaded that came after ``part`` of the keys changed."""
    home, source = built.with_name("changes"), random.Random(2)
    shutil.copytree(built, home / "store")
    store = RoundStore.take_up(home / "store")
    overlay = Overlay(store, budget)
    paths = Paths(str(home / "checkpoints"), "job")
    bringer = Bringer(Destination(LocalStorage(), paths, 1, 0, 0))
    made = []
    for number in range(checkpoints + 1):
        if number:
            changed = source.sample(range(sizes.keys), int(part * sizes.keys))
            write(overlay, changed, sizes.value, source)
            settle(store)
        made.append(checkpoint(overlay, bringer, number, home / str(number)))
    overlay.close()
    shutil.rmtree(home)
    row(part, sizes, made[1:])


def checkpoint(overlay: Overlay, bringer: Bringer, number: int, snapshot: Path) -> Checkpoint:
    began, thread, process = time.perf_counter(), time.thread_time(), time.process_time()
    overlay.snapshot(snapshot)
    seconds, thread = time.perf_counter() - began, time.thread_time() - thread
    linked = time.process_time() - process
    files, new = bringer.bring(number, snapshot, lambda: None)
    whole = time.process_time() - process
    return Checkpoint(new, sum(file.size for file in files), seconds, (thread, linked, whole))


def row(part: float, sizes: Sizes, made: Sequence[Checkpoint]) -> None:
    changed = part * sizes.state
    brought = [one.brought for one in made]
    mean = statistics.mean(brought)
    numbers = [changed, statistics.median(brought), mean, max(brought)]
    texts = [f"{part:.0%}", *(f"{number / 1e6:,.1f}" for number in numbers)]
    texts += [f"{mean / changed:.1f}", f"{mean / sizes.state:.1%}"]
    texts.append(f"{max(one.kept for one in made) / sizes.state:.2f}")
    texts.append(f"{1000 * statistics.median(one.seconds for one in made):.0f}")
    for times in zip(*(one.cpu for one in made), strict=True):
        texts.append(f"{1e6 * statistics.median(times) / (part * sizes.keys):.1f}")
    print(" | ".join(texts), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.durability.changes")
    parser.add_argument("--state-mb", type=int, default=500, help="of one slot (default 500)")
    parser.add_argument("--value-bytes", type=int, default=1000, help="of a key (default 1000)")
    parser.add_argument("--budget-mb", type=int, default=64, help="of memory (default 64)")
    options = parser.parse_args()
    per_key = len(key_of(0)) + options.value_bytes
    sizes = Sizes(options.state_mb * 1_000_000 // per_key, options.value_bytes)
    print(f"{sizes.keys:,} keys, {sizes.state / 1e6:,.0f} MB\n")
    print(" | ".join([*_HEADINGS, *_MORE]))
    with tempfile.TemporaryDirectory(prefix="checkpoint-changes-") as directory:
        built = Path(directory) / "built"
        build(built, sizes, random.Random(1))
        for part, checkpoints in PARTS:
            measure(built, part, checkpoints, sizes, options.budget_mb << 20)


if __name__ == "__main__":
    main()
