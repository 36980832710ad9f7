"""Word count of a generated text, from a file to files."""

from __future__ import annotations

import zlib
from operator import itemgetter
from typing import TYPE_CHECKING

import apache_beam as beam
from apache_beam.io import ReadFromText, WriteToText

from benchmarks.text import word_counts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.jobs.work import Work


def build(pipeline: beam.Pipeline, work: Work) -> None:
    """Applies the job to `pipeline`."""
    _ = (
        pipeline
        | "Read" >> ReadFromText(str(work.text))
        | "Split" >> beam.FlatMap(str.split)
        | "Pair" >> beam.Map(lambda word: (word, 1))
        | "Count" >> beam.CombinePerKey(sum)
        | "Format" >> beam.MapTuple(lambda word, count: f"{word}: {count}")
        | "Write" >> WriteToText(str(work.out / "counts"))
    )


def result(work: Work) -> list[int]:
    """Distinct words, words, and the sum over words of checksum x count."""
    return summary(lines(work))


def lines(work: Work) -> Iterator[tuple[str, int]]:
    """(word, count) of every line that the run wrote, as `counts-*` or as `counts/part-*`."""
    for path in sorted(p for p in work.out.rglob("[!._]*") if p.is_file()):
        for line in path.read_text(encoding="utf-8").splitlines():
            word, count = line.rsplit(": ", 1)
            yield word, int(count)


def summary(counts: Iterator[tuple[str, int]]) -> list[int]:
    """Three numbers that tell two tables of counts apart, in any order of rows."""
    rows = [(1, count, zlib.crc32(word.encode()) * count) for word, count in counts]
    return [sum(map(itemgetter(column), rows)) for column in range(3)]


def expected(work: Work) -> list[int]:
    """`result` from the counts kept when the text was made."""
    return summary(iter(word_counts(work.text).items()))
