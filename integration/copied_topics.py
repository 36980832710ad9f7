"""A topic of Kafka that is written all the time, and one into which ``kafka_copy`` copies it."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from kafka_kills import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_topics import Topics

PARTITIONS = 3
KEYS = 50


class Writer(threading.Thread):
    """Writes numbers until it is told to end; a broker that is away it waits for."""

    def __init__(self, topics: Topics, topic: str) -> None:
        super().__init__(daemon=True)
        self._topics = topics
        self._topic = topic
        self._end = threading.Event()
        self.written = 0

    def run(self) -> None:
        while not self._end.wait(0.1):
            numbers = range(self.written, self.written + 10)
            records = [(n % PARTITIONS, b"%d" % (n % KEYS), b"%d" % n) for n in numbers]
            # Else what comes twice would be written twice.
            self._topics.write(self._topic, records, enable_idempotence=True)
            self.written = numbers.stop

    def end(self) -> None:
        self._end.set()
        self.join()


class Copied:
    """A topic that is written, and one into which it is copied."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self.source, self.target = topics.make(PARTITIONS), topics.make(PARTITIONS)
        self._writer = Writer(topics, self.source)

    def __enter__(self) -> Copied:
        self._writer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    @property
    def written(self) -> int:
        """How many records are in the source."""
        return self._writer.written

    def read(self) -> list[tuple[int, int]]:
        """What is there: number, and how many its key had."""
        values = self._topics.read(self.target, PARTITIONS)
        found = (value.split() for value in values)
        return [(int(number), int(count)) for number, count in found]

    def end(self) -> None:
        """Write no more."""
        self._writer.end()

    def wait_for_all(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Write no more, and wait until everything is there."""
        self.end()
        enough = self._writer.written

        def is_there() -> bool:
            time.sleep(0.5)
            return len(self.read()) >= enough

        wait_for(is_there, f"copies of {enough} records", meanwhile)

    def assert_once(self) -> int:
        """Each record is there once, and was counted once; how many there are."""
        written = self._writer.written
        assert self.assert_begun_once() == written
        return written

    def assert_begun_once(self) -> int:
        """Of each partition the first records are there, each once; how many there are in all."""
        found = self.read()
        parts = Counter(number % PARTITIONS for number, _ in found)
        begun = Counter(
            PARTITIONS * each + part for part, count in parts.items() for each in range(count)
        )
        assert Counter(number for number, _ in found) == begun
        assert_none_twice(found)
        return len(found)


def assert_none_twice(found: list[tuple[int, int]]) -> None:
    """No record is there twice, and those of a key were counted from 1 on."""
    assert len({number for number, _ in found}) == len(found)
    counts = defaultdict(list)
    for number, count in found:
        counts[number % KEYS].append(count)
    for counted in counts.values():
        assert sorted(counted) == list(range(1, len(counted) + 1))
