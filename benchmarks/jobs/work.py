"""How much of a job one run does, and where. Plain Python, for Beam and hand-written jobs alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SHARDS = 8  # parts that generated input is made in, and partitions of hand-written shuffles
MAPS = 5  # on each side of the chain's shuffle


@dataclass(frozen=True, slots=True)
class Work:
    """One run of a job.

    Attributes:
        n: size, in the job's unit (elements, or MB of text).
        keys: number of distinct keys; 0 where the job has no keys.
        text: generated input text; of word count only.
        out: fresh directory on a disk that every worker sees.
    """

    n: int
    keys: int
    text: Path
    out: Path
