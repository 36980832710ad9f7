"""What a benchmark run found out: plain values, from which the tables are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

RATE = "elements/s"


@dataclass(frozen=True, slots=True)
class Row:
    """One job on one runner.

    Attributes:
        job: its name.
        runner: its name.
        family: the peer that the runner is a setting of.
        n: size of a timed run, in the job's unit.
        elements: elements (words) of a timed run.
        share: n relative to the job's full n of this benchmark run.
        warm_up: seconds of the first, smaller run, which is not counted.
        seconds: wall time of each timed run.
        cpu: CPU seconds of each timed run.
        loads: load average at the end of each timed run.
        peak_rss: highest resident memory over the timed runs, bytes.
        figures: what the job found out beside, by name with unit, one entry per timed run.
        problem: why there is no figure; "" where there is one.
        outdone: whether another setting of the same peer was faster, so that this one ended.
    """

    job: str
    runner: str
    family: str
    n: int
    elements: int
    share: float = 1.0
    warm_up: float | None = None
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)
    peak_rss: int = 0
    figures: dict[str, list[float]] = field(default_factory=dict)
    problem: str = ""
    outdone: bool = False

    @property
    def rate(self) -> float | None:
        """Elements per second at the median time; None where there is no figure."""
        return self.elements / median(self.seconds) if self.seconds and not self.problem else None

    @property
    def cpu_micros(self) -> float | None:
        """CPU microseconds per element, median; None where there is no figure."""
        return None if self.rate is None else median(self.cpu) / self.elements * 1e6

    @property
    def per_cpu_second(self) -> float | None:
        """Elements per second of CPU time of all processes; None where there is no figure."""
        return 1e6 / self.cpu_micros if self.cpu_micros else None

    def figure(self, name: str) -> float | None:
        """Median of one of `figures`, or `RATE`; None where there is none."""
        if name == RATE:
            return self.rate
        values = [] if self.problem else self.figures.get(name, [])
        return median(values) if values else None


@dataclass(frozen=True, slots=True)
class StartRow:
    """Starting up on one runner, seconds, one entry per cold process.

    Attributes:
        runner: its name.
        first: from starting the process to the end of its first, trivial pipeline.
        second: from run() to the end of a second one in the same process.
        problem: why there is no figure; "" where there is one.
    """

    runner: str
    first: list[float]
    second: list[float]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Ratio:
    """The runner against one peer on one job.

    Attributes:
        job: its name.
        family: the peer.
        setting: name of the runner of that peer that was fastest; "" where none has a figure.
        value: rate of ours / rate of the peer; None where one of them has no figure.
        cpu: CPU time per element of the peer / that of ours; it minds a busy machine less.
        now: first bar.
        later: bar that the design aims at.
        peer_share: n of the peer relative to ours; rates are compared where it is not 1.
    """

    job: str
    family: str
    setting: str
    value: float | None
    cpu: float | None
    now: float | None
    later: float | None
    peer_share: float

    @property
    def verdict(self) -> str:
        """Which bar the ratio reaches."""
        if self.value is None:
            return "no figure"
        if self.later is not None and self.value >= self.later:
            return "reaches later"
        if self.now is None:
            return "below later" if self.later is not None else "no bar"
        return "reaches now" if self.value >= self.now else "BELOW NOW"
