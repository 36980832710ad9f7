"""What it costs to put groups together that do not fit into memory: by hash, and by sorting.

Run: ``python -m benchmarks.grouping [chunks] [megabytes]`` (2,500,000 and 256 if not told). Half as
many keys as chunks, in random order, in blocks as a producer sends them, go through both mergers in
turns, three times. Figures are microseconds of this process's CPU time per chunk.
"""

from __future__ import annotations

import random
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sparkdrain.shuffle.grouped_blocks import encode_groups
from sparkdrain.shuffle.merging import GroupMerger
from sparkdrain.shuffle.sort_merging import SortMerger

if TYPE_CHECKING:
    from collections.abc import Sequence

PER_KEY: Final = 2
IN_BLOCK: Final = 20_000
TURNS: Final = 3
# One value of 20 bytes, as a list coder writes it.
CHUNK: Final = struct.pack(">i", 1) + b"\x14" + bytes(20)
MERGERS: Final = {"by hash": GroupMerger, "by sorting": SortMerger}


def main() -> None:
    """Measures and prints."""
    given = (*sys.argv[1:], *("2500000", "256")[len(sys.argv) - 1 :])
    chunks, budget = int(given[0]), int(given[1]) << 20
    numbers = [number // PER_KEY for number in range(chunks)]
    random.Random(1).shuffle(numbers)
    blocks = [block(numbers[at : at + IN_BLOCK]) for at in range(0, chunks, IN_BLOCK)]
    with tempfile.TemporaryDirectory(prefix="grouping-") as directory:
        for _ in range(TURNS):
            for name in MERGERS:
                micros = 1e6 * seconds(name, blocks, budget, Path(directory), chunks) / chunks
                print(f"{name}: {micros:.1f} us per chunk", flush=True)


def block(numbers: Sequence[int]) -> bytes:
    """The payload with a chunk for each key."""
    return encode_groups(b"", [b"key-%08d" % number for number in numbers], [CHUNK] * len(numbers))


def seconds(name: str, blocks: Sequence[bytes], budget: int, where: Path, chunks: int) -> float:
    """CPU time from the first block to the last group."""
    began = time.process_time()
    merger = MERGERS[name](budget, lambda: where)
    for payload in blocks:
        merger.add(payload)
    found = sum(len(group) for _, _, group in merger.groups())
    merger.close()
    if found != chunks:
        sys.exit(f"{name}: {found:,} chunks came out of {chunks:,}")
    return time.process_time() - began


if __name__ == "__main__":
    main()
