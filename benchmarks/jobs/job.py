"""What a job is, at which size it runs, and what it should reach."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Bar:
    """Ratio that the runner should reach against one peer; None where none is set."""

    now: float | None
    later: float | None


@dataclass(frozen=True, slots=True)
class Goal:
    """What a figure of the runner itself should be.

    Attributes:
        figure: `rows.RATE`, or the name of one of the job's figures.
        at_least: lower bound, if it has one.
        at_most: upper bound, if it has one.
    """

    figure: str
    at_least: float | None = None
    at_most: float | None = None

    def is_met(self, value: float) -> bool:
        """Whether the figure is within the bounds."""
        return (self.at_least is None or value >= self.at_least) and (
            self.at_most is None or value <= self.at_most
        )


@dataclass(frozen=True, slots=True)
class Job:
    """One row of the plan.

    Attributes:
        name: as in `--only`.
        module: in this package; in `benchmarks.handwritten` and `benchmarks.dataflows` where
            those are among the peers.
        size: n of a full run, in elements, or in MB of text.
        bars: peer family -> bar.
        peers: families of peers that it is measured on.
        per_key: elements of one key; the number of keys follows n, so that a smaller run has
            the same shape. 0 where the job has no keys, `keys` where their number is fixed.
        keys: fixed number of keys.
        shares: peer family -> share of n that it gets, for peers that would not end in time.
            A setting with large batches gets more.
        streaming: whether it runs as a streaming job.
        goals: bounds of this runner's own figures.
        by_clock: whether the wall clock says how fast elements come, so that delay counts.
        has_figures: whether its module has `figures(work)`, for what is not a rate.
        flags: options that this runner gets for this job; ``OUT`` in them is the run's folder.
    """

    name: str
    module: str
    size: int
    what: str
    bars: Mapping[str, Bar] = field(default_factory=dict)
    peers: tuple[str, ...] = ("beam-spark", "fnapi")
    per_key: int = 0
    keys: int = 0
    shares: Mapping[str, float] = field(default_factory=dict)
    streaming: bool = False
    goals: tuple[Goal, ...] = ()
    by_clock: bool = False
    has_figures: bool = False
    flags: tuple[str, ...] = ()

    @property
    def of_text(self) -> bool:
        """Whether n counts megabytes of text."""
        return self.module == "wordcount"

    def share(self, family: str) -> float:
        """Share of n that the settings of this peer get."""
        return self.shares.get(family, 1.0)

    def keys_for(self, n: int) -> int:
        """Number of distinct keys in a run of this size."""
        return max(1, n // self.per_key) if self.per_key else self.keys
