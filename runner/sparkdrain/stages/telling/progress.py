"""How far a job is: facts in, lines of text out; ``progress_display`` shows them.

Slots at work tell the driver: best effort, and never in a task's way. As long as a task runs, it
sends messages of ``[level u32][slot u32][elements u64]``.
"""

from __future__ import annotations

import contextlib
import struct
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.lines.server import Server
from sparkdrain.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sparkdrain.graph.plan import Plan, Stage
    from sparkdrain.lines.line import Endpoint, Line
    from sparkdrain.lines.server import Bind
    from sparkdrain.stages.telling.report import SlotReport

# A cluster without a free core is silent; so is a worker while it imports Beam for the first time.
_SILENCE_SECONDS: Final = 30.0
# So that the table fits on a terminal.
_ROWS_BEFORE: Final = 10
_ROWS_AFTER: Final = 4
_EDGE: Final = "edge "
_COUNT: Final = struct.Struct(">IIQ")
_TICK_SECONDS: Final = 0.5
_CONNECT_SECONDS: Final = 2.0


@dataclass(slots=True)
class LevelProgress:
    """One level, as far as its slots have reported.

    ``elements`` counts what the busiest PCollection of each stage has seen.
    """

    steps: str
    began: float | None = None
    ended: float | None = None
    live: dict[int, int] = field(default_factory=dict)
    elements: int = 0
    shuffled: int = 0
    spilled: int = 0

    def seconds(self, now: float) -> float:
        """How long it has run."""
        return 0.0 if self.began is None else (self.ended or now) - self.began


class JobProgress:
    """A job's levels; thread-safe.

    Args:
        levels: the steps of each level, as people know them.
    """

    def __init__(self, job_id: str, levels: Iterable[str], clock: Callable[[], float]) -> None:
        self.job_id = job_id
        self.endpoint: Endpoint | None = None
        """Where slots report; None if no progress is shown."""
        self.levels = [LevelProgress(steps) for steps in levels]
        self._clock = clock
        self._began = clock()
        self._lock = threading.Lock()

    @property
    def seconds(self) -> float:
        """How long the job has run."""
        return self._clock() - self._began

    def begin(self, level: int) -> None:
        """A level starts, for the first time or again."""
        with self._lock:
            # When a job is run again, nothing that it did before counts.
            self.levels[level:] = [LevelProgress(later.steps) for later in self.levels[level:]]
            self.levels[level].began = self._clock()

    def tick(self, level: int, slot: int, elements: int) -> None:
        """A slot at work says how many elements it has handled."""
        with self._lock:
            if level < len(self.levels) and self.levels[level].ended is None:
                live = self.levels[level].live
                live[slot] = elements
                self.levels[level].elements = sum(live.values())

    def end(self, level: int, reports: Sequence[SlotReport]) -> None:
        """A level has ended; only now its figures are exact."""
        with self._lock:
            ended = self.levels[level]
            ended.ended = self._clock()
            ended.elements = sum(report.handled for report in reports)
            ended.shuffled = sum(report.sent_bytes for report in reports)
            ended.spilled = sum(report.spilled for report in reports)

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """Number, steps, elements, rate and time of the levels around the present one."""
        now = self._clock()
        with self._lock:
            begun = sum(level.began is not None for level in self.levels)
            first = max(0, begun - 1 - _ROWS_BEFORE)
            window = self.levels[first : begun + _ROWS_AFTER]
            return [
                (str(number), level.steps, *self._figures(level, now))
                for number, level in enumerate(window, first + 1)
            ]

    def _figures(self, level: LevelProgress, now: float) -> tuple[str, str, str]:
        if level.began is None:
            return "", "", ""
        seconds = level.seconds(now)
        if level.ended is None and not level.live:
            return "", "waiting" if seconds > _SILENCE_SECONDS else "", duration(seconds)
        rate = f"{count(level.elements / seconds)}/s" if seconds > 0 and level.elements else ""
        return count(level.elements), rate, duration(seconds)

    def line(self) -> str:
        """Where the job is, in one line."""
        now = self._clock()
        with self._lock:
            running = [
                (number, level)
                for number, level in enumerate(self.levels, 1)
                if level.began is not None and level.ended is None
            ]
            if not running:
                return f"Job {self.job_id}: {duration(self.seconds)}"
            number, level = running[-1]
            where = f"level {number} of {len(self.levels)} ({level.steps})"
            return f"{where}: {self._doing(level, now)}, {duration(level.seconds(now))}"

    def _doing(self, level: LevelProgress, now: float) -> str:
        if level.live:
            elements, rate, _ = self._figures(level, now)
            return ", ".join(filter(None, (f"{elements} elements", rate)))
        if level.seconds(now) > _SILENCE_SECONDS:
            return "no task has reported yet; are there executors with free cores?"
        return "starting"

    def summary(self) -> str:
        """What the job has done, in one line."""
        with self._lock:
            elements = sum(level.elements for level in self.levels)
            shuffled = sum(level.shuffled for level in self.levels)
            spilled = sum(level.spilled for level in self.levels)
        return (
            f"Job {self.job_id} done in {duration(self.seconds)}: {count(elements)} elements, "
            f"{size(shuffled)} shuffled, {size(spilled)} spilled"
        )


def steps_of(plan: Plan) -> list[str]:
    """The user's own steps in each level of ``plan``, outermost names only."""
    return [_steps(level) for level in plan.levels]


def _steps(stages: Iterable[Stage]) -> str:
    names = (
        beam_runner_api_pb2.PTransform.FromString(proto).unique_name
        for stage in stages
        for _, proto in stage.transforms
    )
    outermost = dict.fromkeys(
        name.partition("/")[0] for name in names if not name.startswith(_EDGE)
    )
    return redact(", ".join(outermost))


def count(number: float) -> str:
    """A number of things, with three digits that count: ``1.23 M``."""
    return _scaled(number, 1000.0, ("", " k", " M", " G", " T"))


def size(number: float) -> str:
    """A number of bytes: ``1.23 MiB``."""
    return _scaled(number, 1024.0, (" B", " KiB", " MiB", " GiB", " TiB", " PiB"))


def _scaled(number: float, step: float, units: Sequence[str]) -> str:
    for unit in units:
        # As it would be printed: 999.6 is 1000 then, and goes to the next unit.
        if round(number) < 1000 or unit == units[-1]:
            break
        number /= step
    if unit == units[0]:
        return f"{number:.0f}{unit}"
    return f"{number:.{2 if number < 9.995 else 1 if number < 99.95 else 0}f}{unit}"


def duration(seconds: float) -> str:
    """A time that people can take in: ``4.2 s``, ``3 min 20 s``, ``2 h 05 min``."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def progress_server(bind: Bind, tick: Callable[[int, int, int], None]) -> Server:
    """The driver's side, for all slots of a job. What slots send after it is closed is not taken.

    Args:
        bind: where to listen.
        tick: takes level, slot and the number of elements that the slot has handled.

    Raises:
        OSError: nothing can listen there.
    """

    def serve(line: Line) -> None:
        while True:
            count = _COUNT.unpack(line.recv_bytes(_COUNT.size))
            if server.is_closed:
                return
            tick(*count)

    server = Server(bind, "progress", serve)
    return server


@contextmanager
def ticking(
    driver: Endpoint | None,
    level: int,
    slot: int,
    handled: Callable[[], int],
    seconds: float = _TICK_SECONDS,
) -> Iterator[None]:
    """While entered, tell the driver every ``seconds`` what ``handled`` says.

    Does nothing without an endpoint, and gives up for good at the first trouble.
    """
    if driver is None:
        yield
        return
    ended = threading.Event()

    def tick() -> None:
        # Whatever happens here, the task must not notice.
        with contextlib.suppress(Exception):
            if ended.wait(seconds):
                return
            with driver.dial(_CONNECT_SECONDS) as line:
                while True:
                    line.send_bytes(_COUNT.pack(level, slot, handled()))
                    if ended.wait(seconds):
                        return

    threading.Thread(target=tick, name="sparkdrain-progress", daemon=True).start()
    try:
        yield
    finally:
        ended.set()
