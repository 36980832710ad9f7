"""In which environments jobs are run, on this runner and on Beam's own for Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, cast

from benchmarks.jobs import Bar
from benchmarks.runners import OURS

if TYPE_CHECKING:
    from collections.abc import Mapping

PEER: Final = "beam-spark"

Language = Literal["python", "java", "go"]
Where = Literal["in-process", "process", "external", "loopback", "staged"]


@dataclass(frozen=True, slots=True)
class Way:
    """An environment on a runner.

    Attributes:
        family: this runner, or the peer.
        language: of the jobs.
        where: user code runs; ``staged`` is what the program brings, started by the runner.
    """

    family: str
    language: Language
    where: Where

    @property
    def name(self) -> str:
        """As in tables and options."""
        return f"{self.family}-{self.language}-{self.where}"


@dataclass(frozen=True, slots=True)
class Contest:
    """One environment on both runners.

    Attributes:
        name: as in ``--only``.
        title: for tables.
        ours: this runner's setting.
        theirs: the peer's settings; the fastest counts.
        bars: of each job; of the others there is none.
        shares: of each job: the part of n that the peer gets.
        rest: seconds before each run, in which servers make ready what the next job needs.
    """

    name: str
    title: str
    ours: Way
    theirs: tuple[Way, ...] = ()
    bars: Mapping[str, Bar] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    rest: float = 0.0


_JVM_BARS: Final = {
    **dict.fromkeys(("read", "group", "chain", "timers"), Bar(1, None)),
    "state": Bar(3, None),
}
_SHARES: Final = {"state": 0.03, "timers": 0.03}
_REST: Final = 20.0


def _of_programs(name: str, title: str, ours: Where, *theirs: Where) -> Contest:
    """A contest of programs whose language is the first word of its name."""
    language = cast("Language", name.partition("-")[0])
    peers = tuple(Way(PEER, language, where) for where in theirs)
    return Contest(name, title, Way(OURS, language, ours), peers, _JVM_BARS, _SHARES, _REST)


CONTESTS: Final = (
    Contest("in-process", "Python in Spark's workers", Way(OURS, "python", "in-process")),
    Contest(
        "process",
        "Python over PROCESS",
        Way(OURS, "python", "process"),
        (Way(PEER, "python", "process"),),
        {
            **dict.fromkeys(("group", "chain"), Bar(3, None)),
            **dict.fromkeys(("state", "timers"), Bar(20, None)),
        },
        _SHARES,
        _REST / 2,
    ),
    Contest("external", "Python over EXTERNAL", Way(OURS, "python", "external")),
    _of_programs("java", "Java", "staged", "process", "loopback"),
    _of_programs("java-loopback", "Java over LOOPBACK", "loopback", "loopback"),
    _of_programs("go", "Go", "staged", "process", "loopback"),
)


def way_named(name: str) -> Way:
    """The way of this name; KeyError where there is none."""
    return {way.name: way for c in CONTESTS for way in (c.ours, *c.theirs)}[name]
