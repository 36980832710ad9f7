"""What a record costs in the exactly-once sink of Kafka, without Spark, a broker and a client.

Run: ``python -m benchmarks.once_cost [records] [--turns N]``, by default 50,000 records of 100
bytes with keys. The sink's own steps run one after the other, and between them records are coded as
in a job. Transactions keep nothing but what they record. Figures are microseconds of this process's
CPU time per record, the least of all turns.
"""

from __future__ import annotations

import argparse
import gc
import logging
import time
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from apache_beam.coders import TupleCoder, VarIntCoder
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.io.kafka import choose
from sparkdrain.io.kafka.encoding import Encoding
from sparkdrain.io.kafka.records import ProducerRecordCoder
from sparkdrain.io.kafka.settings import Settings
from sparkdrain.io.kafka.write_once import Group, Number, Publish, Transactional

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkdrain.io.kafka.note import Recorded

GROUPS: Final = 8
_RECORD: Final = ProducerRecordCoder()
GROUPED: Final = TupleCoder((VarIntCoder(), _RECORD)).get_impl()
NUMBERED: Final = TupleCoder((VarIntCoder(), TupleCoder((VarIntCoder(), _RECORD)))).get_impl()


class Transactions:
    """Keeps what is recorded."""

    def __init__(self, kept: dict[str, Recorded], ident: str) -> None:
        self._kept = kept
        self._ident = ident

    def recorded(self) -> Recorded | None:
        """What the last one has recorded."""
        return self._kept.get(self._ident)

    def record(self, recorded: Recorded) -> None:
        """Keep it."""
        self._kept[self._ident] = recorded

    def send(self, *record: object) -> None:
        """Forget the record."""

    def nothing(self) -> None:
        """Nothing to do."""

    fence = begin = commit = close = nothing


class Client:
    """Opens transactions."""

    def __init__(self) -> None:
        self._kept: dict[str, Recorded] = {}

    def transactions(self, ident: str, mark: object) -> Transactions:
        """Of an id."""
        del mark
        return Transactions(self._kept, ident)


class Cell:
    """A state, or a timer, of one group."""

    content: Any = None

    def read(self) -> Any:
        """What was written last."""
        return self.content

    def write(self, content: Any) -> None:
        """Keep it."""
        self.content = content

    set = write


def measure(records: int) -> dict[str, float]:
    """Microseconds per record, by step."""
    elements = [(b"%d" % number, b"%0100d" % number) for number in range(records)]
    client = Client()
    sink = Transactional(Settings("fake"), "sink", "out")
    with patch.object(choose, "open_client", lambda _: client):
        gc.collect()
        gc.freeze()
        gc.disable()
        try:
            return dict(_steps(elements, sink))
        finally:
            gc.enable()
            gc.unfreeze()


def _steps(elements: list[Any], sink: Transactional) -> Iterator[tuple[str, float]]:
    clock, micros = time.process_time, 1e6 / len(elements)
    group, number, publish = (
        Group(Encoding("out", None, None), GROUPS, event_time=False),
        Number(sink),
        Publish(sink),
    )
    now = Timestamp(0)
    start = began = clock()
    made = [pair for element in elements for pair in group.process(element, now)]
    yield "Group", (clock() - began) * micros
    began = clock()
    made = [GROUPED.decode(GROUPED.encode(pair)) for pair in made]
    yield "coded for Number", (clock() - began) * micros
    cells = [(Cell(), Cell(), Cell()) for _ in range(GROUPS)]
    began = clock()
    numbered = [one for pair in made for one in number.process(pair, *cells[pair[0]])]
    yield "Number", (clock() - began) * micros
    began = clock()
    numbered = [NUMBERED.decode(NUMBERED.encode(one)) for one in numbered]
    yield "coded for Publish", (clock() - began) * micros
    began = clock()
    publish.start_bundle()
    for one in numbered:
        publish.process(one)
    publish.more_is_safe(False)
    publish.finish_bundle()
    yield "Publish", (clock() - began) * micros
    yield "all", (clock() - start) * micros


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", nargs="?", type=int, default=50_000)
    parser.add_argument("--turns", type=int, default=7)
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    turns = [measure(given.records) for _ in range(given.turns)]
    for step in turns[0]:
        print(f"{step:20s} {min(turn[step] for turn in turns):6.2f}")


if __name__ == "__main__":
    main()
