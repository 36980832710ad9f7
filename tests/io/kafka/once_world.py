"""A world of jobs that write with the exactly-once sink: its real DoFns, and brokers in memory.

The runner's part is played here: state by key, batches that wait for a checkpoint, checkpoints,
lives that end. A job reads records of two partitions, in any order.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field

from apache_beam.utils.timestamp import Timestamp
from fake_kafka import FakeKafka

from sparkdrain.io.kafka.encoding import Encoding
from sparkdrain.io.kafka.settings import Settings
from sparkdrain.io.kafka.write_once import Group, Number, Publish, Transactional

GROUPS = 2
PARTITIONS = 2


class Crash(Exception):
    """A process is gone."""


class Cell:
    """State of one key, in the state of a job."""

    def __init__(self, cells, key):
        self._cells = cells
        self._key = key

    def read(self):
        return self._cells.get(self._key)

    def write(self, content):
        self._cells[self._key] = content

    set = write


@dataclass
class State:
    """What a checkpoint of a job has."""

    positions: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    cells: dict = field(default_factory=dict)
    parked: list[list] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    """The records that the job has made."""


class World:
    """Brokers, and what there is to read: numbers, by partition."""

    def __init__(self) -> None:
        self.kafka = FakeKafka()
        self.kafka.topic("out")
        self.source: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self.committed = [0] * PARTITIONS
        """Where a job that begins anew begins to read: what a drained job has read."""

    def written(self) -> list[int]:
        return [int(value) for value in self.kafka.values("out")]

    def forget(self, group: int) -> None:
        """The offsets of a group expire."""
        self.kafka.recorded.pop(f"sink-{group}", None)

    def crash_after(self, steps: int | None) -> None:
        """The process that publishes next is killed at this step; None: it is not."""
        left = steps

        def before(_step):
            nonlocal left
            if left is not None:
                left -= 1
                if left < 0:
                    left = None
                    raise Crash

        self.kafka.before = before


class Job:
    """A job with a folder of checkpoints, and the life that it lives, if it does."""

    def __init__(self, world: World, folder=(), overruled=()) -> None:
        self.world = world
        self.folder = list(folder)
        self.overruled = overruled
        self.state: State | None = None

    @property
    def lives(self) -> bool:
        return self.state is not None

    def resume(self) -> None:
        """Go on from the newest checkpoint, or begin."""
        begun = State(list(self.world.committed))
        self.state = deepcopy(self.folder[-1]) if self.folder else begun
        self.safe = len(self.state.parked)
        sink = Transactional(Settings("fake"), "sink", "out", "job", self.overruled)
        self.group = Group(Encoding("out", None, None), GROUPS, event_time=False)
        self.number = Number(sink)
        self.publish = Publish(sink)

    def kill(self) -> Publish:
        """End the life; what published in it may not know yet."""
        self.state = None
        return self.publish

    def copy(self) -> Job:
        """Another job, with a copy of the folder."""
        return Job(self.world, deepcopy(self.folder))

    def lose(self, checkpoints: int) -> None:
        """An older copy of the folder is put in place of it."""
        del self.folder[max(1, len(self.folder) - checkpoints) :]

    def read(self, partitions) -> None:
        """A round: read a record of each of these partitions, one after the other."""
        batch = []
        for partition in partitions:
            position = self.state.positions[partition]
            if position == len(self.world.source[partition]):
                continue
            record = self.world.source[partition][position]
            self.state.positions[partition] += 1
            self.state.seen.append(record)
            element = (b"%d" % (record % 5), b"%d" % record)
            for group, made in self.group.process(element, Timestamp(0)):
                cells = [Cell(self.state.cells, (group, name)) for name in ("next", "kept", "end")]
                batch += self.number.process((group, made), *cells)
        if batch:
            self.state.parked.append(batch)

    def end(self) -> None:
        """Time has come to its end."""
        batch = []
        for group, name in list(self.state.cells):
            if name == "end" and self.state.cells[group, name] is not None:
                self.state.cells[group, name] = None
                batch += self.number.end(group, Cell(self.state.cells, (group, "kept")))
        if batch:
            self.state.parked.append(batch)

    def checkpoint(self) -> None:
        self.folder.append(deepcopy(self.state))
        self.safe = len(self.state.parked)

    def release(self, batches: int | None = None) -> None:
        """Publish so many of the batches that a checkpoint has; all if that is not given."""
        count = self.safe if batches is None else min(batches, self.safe)
        released, self.state.parked[:count] = self.state.parked[:count], []
        self.safe -= count
        self.publish.start_bundle()
        for element in (element for batch in released for element in batch):
            self.publish.process(element)
        self.publish.more_is_safe(self.safe > 0)
        self.publish.finish_bundle()

    def read_all(self) -> None:
        self.read([n for n in range(PARTITIONS) for _ in self.world.source[n]])

    def missing(self) -> set[int]:
        """What the job has made, and is not there."""
        return set(self.state.seen) - set(self.world.written())
