"""A job as its pace sees it: elements that come, rounds that take time, a machine of any speed."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sparkdrain.rounds.messages import RoundReport
from sparkdrain.watermarks.frontier import BEGIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkdrain.rounds.driver.pace import Pace


@dataclass(frozen=True, slots=True)
class Round:
    """What a round made, how long it took, and what it left waiting."""

    made: int
    took: float
    backlog: float


@dataclass(slots=True)
class Load:
    """A source, and a level behind it.

    Attributes:
        each: seconds that the source needs for an element.
        later: how much of that the level behind it needs.
        fixed: seconds of work in each level that do not depend on elements.
        cost: seconds that a round takes beside that.
        rate: elements that come in a second; infinite: there are always enough.
        slowness: of the machine: how much longer everything takes.
        noise: by how much, of 1, single rounds are longer or shorter.
        backlog: elements that wait.
    """

    each: float = 2e-6
    later: float = 1.0
    fixed: float = 0.01
    cost: float = 0.05
    rate: float = math.inf
    slowness: float = 1.0
    noise: float = 0.0
    backlog: float = 0.0
    seed: random.Random = field(default_factory=lambda: random.Random(4))

    def rounds(self, pace: Pace, count: int) -> Iterator[Round]:
        """Run rounds; between them, anything here may change."""
        if self.rate == math.inf:
            self.backlog = math.inf
        for _ in range(count):
            by_time = pace.seconds / (self.each * self.slowness)
            made = int(min(max(1, min(pace.elements, by_time)), self.backlog))
            reading = self._long(self.fixed) + made * self._long(self.each)
            behind = self._long(self.fixed) + made * self._long(self.each * self.later)
            took = reading + behind + self._long(self.cost)
            is_spent = self.backlog - made >= 1
            self.backlog -= made
            reports = [_report(0, made, reading, spent=is_spent), _report(1, 0, behind)]
            self.backlog += self.rate * took
            pace.took(took, reports, behind=self.backlog >= 1)
            yield Round(made, took, self.backlog)

    def _long(self, seconds: float) -> float:
        return seconds * self.slowness * max(0.3, self.seed.gauss(1, self.noise))


def _report(level: int, made: int, busy: float, *, spent: bool = False) -> RoundReport:
    return RoundReport(
        level, 0, 1, 1, {}, (BEGIN,), frozenset(), None, busy=busy, made=made, spent=spent
    )
