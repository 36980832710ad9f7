"""How long a slot needs to be opened again from files of its host, beside a download.

Run: ``python -m benchmarks.local_state [megabytes] [times] [directory]`` (1024, 5 and a temporary
one if not told). A store is filled with keys, uploaded and kept as a slot does it. Then it is
opened in turns: from the folder that ``--state_dir`` names, and from storage that cannot be linked.
Each time the store is opened and one key is read, which is the first that a slot does for an
output. The exit code is 0 if the median from the folder is at most 2 s.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.restore import STATE, Elsewhere, fill
from sparkdrain.checkpoints.destination import Destination
from sparkdrain.checkpoints.manifest import ShardState
from sparkdrain.checkpoints.paths import Paths
from sparkdrain.checkpoints.restore import restore
from sparkdrain.checkpoints.upload import Uploader
from sparkdrain.local_state.notes import SlotNote
from sparkdrain.local_state.slot_files import SlotFiles
from timers_state import Overlay, RoundStore

if TYPE_CHECKING:
    from sparkdrain.checkpoints.restore import Restored

AIM_SECONDS: Final = 2.0
NOTE: Final = SlotNote("job", "/checkpoints/job", 0, 0)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.local_state")
    parser.add_argument("megabytes", nargs="?", type=int, default=1024)
    parser.add_argument("times", nargs="?", type=int, default=5)
    parser.add_argument("directory", nargs="?")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="local-", dir=options.directory) as name:
        directory = Path(name)
        paths = Paths(str(directory / "checkpoints"), "job")
        rows = fill(directory, options.megabytes)
        began = time.monotonic()
        shard = upload(directory, paths)
        size = sum(file.size for file in shard.files)
        print(
            f"{rows:,} keys, {size >> 20:,} MiB in {len(shard.files)} files, "
            f"uploaded and kept in {time.monotonic() - began:.2f} s"
        )
        local, fetched = [], []
        for _ in range(options.times):
            local.append(opened(directory, paths, shard, state="state"))
            fetched.append(opened(directory, paths, shard, state=""))
            print(f"  from the host's files {local[-1]:.2f} s, by download {fetched[-1]:.2f} s")
    median = statistics.median(local)
    print(
        f"from the host's files {median:.2f} s, by download {statistics.median(fetched):.2f} s "
        f"(medians; at most {AIM_SECONDS:.0f} s is the aim)"
    )
    sys.exit(median > AIM_SECONDS)


def upload(directory: Path, paths: Paths) -> ShardState:
    """Make the snapshot durable, and keep its files on this host."""
    kept = SlotFiles(str(directory / "state"), NOTE)
    uploader = Uploader(Destination(Elsewhere(), paths, 1, 0, 0), keeper=kept)
    uploader.begin(1, directory / "snapshot")
    wait = threading.Event()
    while (uploaded := uploader.poll()) is None:
        wait.wait(0.05)
    uploader.close()
    if uploaded.error or uploaded.told:
        sys.exit(uploaded.error or uploaded.told)
    return ShardState(0, 0, uploaded.files)


def opened(directory: Path, paths: Paths, shard: ShardState, *, state: str) -> float:
    """Open the state and read one key; how many seconds that took."""
    back = directory / "back"
    began = time.monotonic()
    kept = SlotFiles(str(directory / state), NOTE) if state else None
    found: Restored = restore(Elsewhere(), paths, shard, back, kept)
    with Overlay(RoundStore.take_up(back), 64 << 20) as overlay:
        assert overlay.scope(STATE, b"key 7").value(b"tag").get() is not None
        seconds = time.monotonic() - began
    if kept is not None:
        kept.close()
    assert (found.fetched_bytes == 0) == bool(state)
    shutil.rmtree(back, ignore_errors=True)
    return seconds


if __name__ == "__main__":
    main()
