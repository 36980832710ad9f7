"""What an element of a streaming job costs, by level and part, in one process without Spark.

Run: ``python -m benchmarks.element_cost [job] [elements] [--slots N] [--state-mb N] [--part N]
[--no-prefetch] [--no-undo] [--cprofile] [--instructions]``, by default ``stream-state`` with
300,000 elements. All slots and the driver's loop of rounds are in this process; lists stand in for
shuffles. A round has about one element per key, or per key of one part of ``--part``.
Figures are microseconds of this process's CPU time per element of the job: what a part calls counts
for it, other parts excepted. The job's result is checked.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import logging
import pstats
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from benchmarks.jobs import (
    sessions,
    state_kinds,
    stream_count,
    stream_state,
    stream_windows,
    tumbling,
)
from benchmarks.jobs.work import Work
from sparkdrain.rounds.sources.restrictions import RestrictionInput
from tests.support.in_memory_rounds import DEFAULTS, InMemoryRounds, plan_of
from timers_state import Overlay
from timers_state.small.records import Records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

    from sparkdrain.rounds.messages import RoundHeader
    from sparkdrain.rounds.slots.slot import RoundSlot
    from sparkdrain.stages.shards.task_options import TaskOptions
    from timers_state.small.record import Content, Record

# Keys, and elements of a key in a round; about as on Spark.
JOBS: Final[dict[str, tuple[Any, Any, Any, int]]] = {
    "stream-state": (stream_state, sessions.session_shards, lambda n: n // sessions.TURNS, 1),
    "stream-count": (stream_count, sessions.session_shards, lambda n: n // sessions.TURNS, 1),
    **{
        name: (variant, sessions.session_shards, lambda n: n // sessions.TURNS, 1)
        for name, variant in state_kinds.VARIANTS.items()
    },
    "stream-windows": (stream_windows, tumbling.tumbling_shards, lambda _: 1000, 100),
}
PARTS: Final = {
    "take": "blocks taken",
    "process": "elements",
    "advance": "timers, windows that end",
    "end": "end of the round",
    "rest": "the rest",
}
DRIVER: Final = "driver"


class SteadyPace:
    """No bounds; those of sources are in ``_probe``."""

    seconds = 3600.0
    elements = 1 << 40

    def took(self, seconds: float, reports: Any, **known: bool) -> None:
        """Nothing follows from it."""


class Meter:
    """CPU time by part; time in a part within another one counts for the inner one."""

    def __init__(self, now: Callable[[], float] = time.process_time) -> None:
        self.seconds: dict[tuple[str, str], float] = defaultdict(float)
        self._now = now
        self._open: list[tuple[str, str]] = []
        self._since = now()

    @contextmanager
    def part(self, level: str, name: str) -> Iterator[None]:
        """What happens within belongs to a part."""
        self._turn()
        self._open.append((level, name))
        try:
            yield
        finally:
            self._turn()
            self._open.pop()

    def _turn(self) -> None:
        now = self._now()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now

    def within(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function as a part of whatever level runs."""

        @wraps(function)
        def measured(*args: Any, **kwargs: Any) -> Any:
            with self.part(self._open[-1][0], name):
                return function(*args, **kwargs)

        return measured


class Instructions:
    """Counts bytecode instructions and calls by function. Other load does not change them."""

    def __init__(self) -> None:
        self.instructions: Counter[CodeType] = Counter()
        self.calls: Counter[CodeType] = Counter()

    def runcall(self, function: Callable[..., None], *args: Any) -> None:
        """As ``cProfile.Profile`` has it."""
        sys.settrace(self._called)
        try:
            function(*args)
        finally:
            sys.settrace(None)

    def _called(self, frame: FrameType, _event: str, _value: Any) -> Any:
        self.calls[frame.f_code] += 1
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._traced

    def _traced(self, frame: FrameType, event: str, _value: Any) -> Any:
        self.instructions[frame.f_code] += event == "opcode"
        return self._traced

    def by_function(self) -> Counter[tuple[str, str]]:
        """Of both; generated functions, whose names have a number, are put together."""
        found: Counter[tuple[str, str]] = Counter()
        for what, counted in (("instructions", self.instructions), ("calls", self.calls)):
            for code, count in counted.items():
                file = "generated" if code.co_filename[0] == "<" else Path(code.co_filename).name
                found[what, f"{file}:{code.co_name}"] += count
        return found


def count(job: str, elements: int, slots: int, options: TaskOptions, part: int) -> list[str]:
    """Lines with a function each, and what an element more costs in it."""
    counted = []
    for times in (1, 3):
        counter = Instructions()
        measure(job, times * elements, slots, options, part, counter)
        counted.append(counter.by_function())
    few, many = counted
    each = {key: (many[key] - few[key]) / (2 * elements) for key in many}
    of_all = {what: sum(n for (of, _), n in each.items() if of == what) for what, _ in each}
    lines = ["| function | instructions | calls |", "|---|---|---|"]
    lines.append(f"| all | {of_all['instructions']:.1f} | {of_all['calls']:.2f} |")
    for (what, name), instructions in sorted(each.items(), key=lambda found: -found[1])[:40]:
        if what == "instructions":
            lines.append(f"| {name} | {instructions:.1f} | {each['calls', name]:.2f} |")
    return lines


def measure(
    job: str,
    elements: int,
    slots: int,
    options: TaskOptions,
    part: int,
    profile: cProfile.Profile | Instructions | None,
) -> Meter:
    """Run a job and say where its time went."""
    module, shards_of, keys_of, at_once = JOBS[job]
    with tempfile.TemporaryDirectory() as out:
        work = Work(elements, max(1, keys_of(elements)), Path(out) / "text", Path(out))
        pipeline = beam.Pipeline(options=PipelineOptions([]))
        module.build(pipeline, work)
        claims = at_once * sum(shard.blocks // shard.turns for shard in shards_of(work))
        pace: Any = SteadyPace()
        rounds = InMemoryRounds(plan_of(pipeline), slots, options, pace=pace)
        try:
            meter = _metered(rounds, max(1, claims // slots // part), profile)
        finally:
            rounds.close()
        found, expected = module.result(work), module.expected(work)
        if found != expected:
            message = f"{job} made {found} instead of {expected}"
            raise SystemExit(message)
        print(f"{len(rounds.rounds)} rounds")
    return meter


def _metered(
    rounds: InMemoryRounds, claims: int, profile: cProfile.Profile | Instructions | None
) -> Meter:
    meter = Meter()
    for (level, _), slot in rounds._slots.items():  # noqa: SLF001 - a probe
        _probe(meter, f"level {level}", slot, claims)
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)  # as Spark's workers have it
    ends = {name: meter.within("end", getattr(Overlay, name)) for name in ("prepare", "commit")}
    with patch.multiple(Overlay, **ends), meter.part(DRIVER, "rest"):
        if profile is None:
            rounds.run_to_end(3600)
        else:
            profile.runcall(rounds.run_to_end, 3600)
    return meter


def _probe(meter: Meter, level: str, slot: RoundSlot, claims: int) -> None:
    run, inputs = slot.run, list(slot.inputs())
    reads = any(isinstance(input_, RestrictionInput) for input_ in inputs)

    def measured(header: RoundHeader, *args: Any) -> None:
        with meter.part(level, "rest"):
            run(replace(header, elements=claims) if reads else header, *args)

    slot.run = measured  # type: ignore[method-assign]
    for input_ in inputs:
        for name in ("take", "process", "advance"):
            setattr(input_, name, meter.within(name, getattr(input_, name)))


def table(meter: Meter, elements: int) -> list[str]:
    """Lines with a level each, and microseconds per element."""
    levels = [*sorted({level for level, _ in meter.seconds} - {DRIVER}), DRIVER]
    lines = ["| level | " + " | ".join(PARTS.values()) + " | sum |", "|" + "---|" * 7]
    for level in levels:
        parts = [meter.seconds.get((level, name), 0.0) for name in PARTS]
        cells = [f"{seconds / elements * 1e6:.2f}" for seconds in (*parts, sum(parts))]
        lines.append(f"| {level} | " + " | ".join(cells) + " |")
    whole = sum(meter.seconds.values()) / elements * 1e6
    lines.append(f"| all |{' |' * len(PARTS)} {whole:.2f} |")
    return lines


def _keep_nothing(records: Records, record: Record) -> Content:
    """Stands in for ``Records._save``: what was committed is not kept, nor is the change listed."""
    record.saved = records.empty
    return records.empty


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", nargs="?", choices=JOBS, default="stream-state")
    parser.add_argument("elements", nargs="?", type=int, default=300_000)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--part", type=int, default=1, help="which part of the keys a round has")
    parser.add_argument("--state-mb", type=float, help="room for state, in MiB")
    parser.add_argument("--no-prefetch", action="store_true", help="each key is read in its turn")
    parser.add_argument("--no-undo", action="store_true", help="no round can be undone")
    parser.add_argument("--cprofile", action="store_true", help="also which functions took longest")
    parser.add_argument(
        "--instructions", action="store_true", help="count them, and calls, in place of time"
    )
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    profile = cProfile.Profile() if given.cprofile else None
    options = DEFAULTS
    if given.state_mb is not None:
        options = replace(DEFAULTS, state_bytes=int(given.state_mb * (1 << 20)))
    as_they_come = patch.object(Overlay, "prefetch", lambda _, state, keys, **parts: len(keys))
    as_in_memory = patch.object(Records, "_save", _keep_nothing)
    with (
        as_they_come if given.no_prefetch else nullcontext(),
        as_in_memory if given.no_undo else nullcontext(),
    ):
        if given.instructions:
            print("\n".join(count(given.job, given.elements, given.slots, options, given.part)))
            return
        meter = measure(given.job, given.elements, given.slots, options, given.part, profile)
    print("\n".join(table(meter, given.elements)))
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)


if __name__ == "__main__":
    main()
