"""A stream with much state: every element changes the state of its key.

At first each key gets its state. From then on elements come only while there is a file, so that
somebody else can decide when the stream flows.
"""

from __future__ import annotations

import os
import random
import uuid
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.coders import BytesCoder
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.utils.timestamp import Duration

from benchmarks.jobs.numbers import Numbers
from benchmarks.jobs.work import SHARDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BLOCK = 500
AT_ONCE = 10_000
_CLOSED_SECONDS = 0.5
_CHANGED = 16

Shard = tuple[int, int, int]
"""First key, how many keys, and how many of them change after they have their state."""


class Emit(beam.DoFn):
    """All keys of a shard in turn; then keys drawn at random, as long as the file ``gate`` is."""

    def __init__(self, gate: Path) -> None:
        self._gate = str(gate)

    @beam.DoFn.unbounded_per_element()
    def process(
        self, shard: Shard, tracker: Any = beam.DoFn.RestrictionParam(Numbers())
    ) -> Iterator[tuple[str, int]]:
        first, keys, changing = shard
        number = tracker.current_restriction().start
        for _ in range(0, AT_ONCE, BLOCK):
            builds = number * BLOCK < keys
            if not builds and not os.path.exists(self._gate):
                tracker.defer_remainder(Duration(seconds=_CLOSED_SECONDS))
                return
            if not tracker.try_claim(number):
                return
            if builds:
                chosen = iter(range(number * BLOCK, min(keys, (number + 1) * BLOCK)))
            else:
                draw = random.Random((first << 32) + number).random
                chosen = (int(draw() * changing) for _ in range(BLOCK))
            for key in chosen:
                yield f"key-{first + key:010d}", number
            number += 1
        tracker.defer_remainder()


class Change(beam.DoFn):
    """Reads the state of a key and writes another; counts in a file of its own."""

    STATE = ReadModifyWriteStateSpec("state", BytesCoder())

    def __init__(self, size: int, counts: Path) -> None:
        self._size = size
        self._counts = str(counts)

    def setup(self) -> None:
        self._path = os.path.join(self._counts, uuid.uuid4().hex)
        self._count = 0

    def process(
        self, element: tuple[str, int], state: Any = beam.DoFn.StateParam(STATE)
    ) -> Iterator[int]:
        before = state.read()
        if before is None:
            state.write(os.urandom(self._size))
        else:
            state.write(before[_CHANGED:] + os.urandom(_CHANGED))
        self._count += 1
        yield from ()

    def finish_bundle(self) -> None:
        with open(self._path, "w", encoding="ascii") as file:
            file.write(str(self._count))


def counted(counts: Path) -> int:
    """How many elements there were."""
    return sum(int(path.read_text(encoding="ascii") or 0) for path in counts.iterdir())


def build(
    pipeline: beam.Pipeline, keys: int, changing: int, size: int, gate: Path, counts: Path
) -> None:
    """Applies the job to ``pipeline``."""
    shards = [
        (keys * s // SHARDS, keys // SHARDS, max(1, changing // SHARDS)) for s in range(SHARDS)
    ]
    _ = (
        pipeline
        | beam.Impulse()
        | "Shards" >> beam.FlatMap(lambda _: shards).with_output_types(tuple[int, int, int])
        | "Spread" >> beam.Reshuffle()
        | "Emit" >> beam.ParDo(Emit(gate)).with_output_types(tuple[str, int])
        | "Change" >> beam.ParDo(Change(size, counts)).with_output_types(int)
    )
