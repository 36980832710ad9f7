"""How long it takes to bring state back from a checkpoint, against copying it twice.

Run: ``python -m benchmarks.restore [megabytes] [times] [directory] [--copied]`` (1024, 5 and a
temporary one if not told). A store is filled with keys, snapshot and uploaded as a slot does it;
then it is restored, and its files are copied twice with ``shutil.copytree``, in turns. All is on
one disk, so tables are linked; ``--copied`` has them copied, as between two disks. The exit code is
0 if the median of the ratios is at most 1.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sparkdrain.checkpoints.local_storage import LocalStorage
from sparkdrain.checkpoints.manifest import ShardState
from sparkdrain.checkpoints.paths import Paths
from sparkdrain.checkpoints.restore import restore
from sparkdrain.checkpoints.upload import Destination, Uploader
from timers_state import Overlay, RoundStore

if TYPE_CHECKING:
    from collections.abc import Callable

VALUE_BYTES: Final = 4096
ROUND: Final = 2000
STATE: Final = 1


class Elsewhere(LocalStorage):
    """On another disk than the state."""

    def link(self, path: str, to: Path) -> bool:
        return False


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.restore")
    parser.add_argument("megabytes", nargs="?", type=int, default=1024)
    parser.add_argument("times", nargs="?", type=int, default=5)
    parser.add_argument("directory", nargs="?")
    parser.add_argument("--copied", action="store_true")
    options = parser.parse_args()
    storage = Elsewhere() if options.copied else LocalStorage()
    with tempfile.TemporaryDirectory(prefix="restore-", dir=options.directory) as name:
        directory = Path(name)
        paths = Paths(str(directory / "checkpoints"), "job")
        shard, rows = checkpoint(directory, paths, options.megabytes)
        size = sum(file.size for file in shard.files)
        print(f"{rows:,} keys, {size >> 20:,} MiB in {len(shard.files)} files")
        ratios = [measure(directory, storage, paths, shard) for _ in range(options.times)]
    ratio = statistics.median(ratios)
    print(f"restoring takes {ratio:.2f} of copying twice (median; at most 1 is promised)")
    sys.exit(ratio > 1)


def checkpoint(directory: Path, paths: Paths, megabytes: int) -> tuple[ShardState, int]:
    """State of that size, made durable; and how many keys it has."""
    rows = fill(directory, megabytes)
    uploader = Uploader(Destination(LocalStorage(), paths, 1, 0, 0))
    uploader.begin(1, directory / "snapshot")
    wait = threading.Event()
    while (uploaded := uploader.poll()) is None:
        wait.wait(0.05)
    uploader.close()
    if uploaded.error:
        sys.exit(uploaded.error)
    return ShardState(0, 0, uploaded.files), rows


def fill(directory: Path, megabytes: int) -> int:
    """Make a store of that size and a snapshot of it; how many keys it has."""
    chance = random.Random(1)
    rows = (megabytes << 20) // VALUE_BYTES
    with Overlay(RoundStore(directory / "live"), 64 << 20) as overlay:
        for begin in range(0, rows, ROUND):
            for number in range(begin, min(begin + ROUND, rows)):
                # What cannot be compressed.
                overlay.scope(STATE, b"key %d" % number).value(b"tag").set(
                    chance.randbytes(VALUE_BYTES)
                )
            overlay.prepare()
            overlay.commit()
        overlay.snapshot(directory / "snapshot")
    return rows


def measure(directory: Path, storage: LocalStorage, paths: Paths, shard: ShardState) -> float:
    """Restores once and copies twice; how the times compare."""
    back = directory / "back"
    copies = [directory / "copy-0", directory / "copy-1"]
    restored = _seconds(lambda: restore(storage, paths, shard, back))
    copied = sum(_seconds(lambda to=to: shutil.copytree(paths.files, to)) for to in copies)
    for made in (back, *copies):
        shutil.rmtree(made)
    print(
        f"  restored in {restored:.2f} s, copied twice in {copied:.2f} s: {restored / copied:.2f}"
    )
    return restored / copied


def _seconds(step: Callable[[], object]) -> float:
    # What is waiting to be written from before is not of this step.
    os.sync()
    began = time.monotonic()
    step()
    return time.monotonic() - began


if __name__ == "__main__":
    main()
