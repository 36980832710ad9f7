"""The generated text of word count: the same bytes for the same size, on any machine."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

VOCABULARY = 20_000
WORDS_PER_LINE = 10
_LINES_AT_ONCE = 1000


def make_text(directory: Path, megabytes: int) -> Path:
    """A text of `megabytes` x 10^6 bytes, rounded up to a block of lines; made once, then reused.

    Words are 6 to 10 letters long; the word of rank r comes up in proportion to 1 / (r + 10).
    The counts of all words go to a file next to the text.
    """
    path = directory / f"words-{megabytes}mb.txt"
    if _counts_path(path).exists():
        return path
    directory.mkdir(parents=True, exist_ok=True)
    counts = _write(path, megabytes * 1_000_000)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(counts), encoding="utf-8")
    os.replace(part, _counts_path(path))
    return path


def word_counts(text: Path) -> dict[str, int]:
    """Each word of the text with its number of occurrences."""
    counts: dict[str, int] = json.loads(_counts_path(text).read_text(encoding="utf-8"))
    return counts


def words_in(text: Path) -> int:
    """Number of words in the text."""
    return sum(word_counts(text).values())


def _counts_path(text: Path) -> Path:
    return text.with_suffix(".counts.json")


def _write(path: Path, size: int) -> Counter[str]:
    rng = random.Random(20130101)
    words = [f"w{rank:05d}" + "abcd"[: rank % 5] for rank in range(VOCABULARY)]
    cumulative, total = [], 0.0
    for rank in range(VOCABULARY):
        total += 1 / (rank + 10)
        cumulative.append(total)
    counts: Counter[str] = Counter()
    written = 0
    with path.open("w", encoding="ascii") as f:
        while written < size:
            drawn = rng.choices(words, cum_weights=cumulative, k=WORDS_PER_LINE * _LINES_AT_ONCE)
            counts.update(drawn)
            for i in range(0, len(drawn), WORDS_PER_LINE):
                written += f.write(" ".join(drawn[i : i + WORDS_PER_LINE]) + "\n")
    return counts
