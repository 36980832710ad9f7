"""Elements in flight on Spark: beside bare asyncio, and the same steps on other runners of Beam.

Run: ``python -m benchmarks.async_calls [calls] [latency] [lookups] [--elements N] [--runs N] ...``,
by default all three, on ``local[2]``.

- ``calls``: a step that waits for 10 ms, 100 in flight in each slot. Beside it bare asyncio in two
  processes with the same limits, the same DoFn synchronous, and in Beam's ``AsyncWrapper`` on this
  runner, on FnApiRunner and, with ``--prism`` and the path of its program, on Prism. The best of
  ``--runs`` counts, without the time of a pipeline that does nothing on the same runner.
- ``latency``: how much later results leave such a step in a stream than 10 ms after their element
  was due at the source, and the same of a step that returns at once.
- ``lookups``: values of 100 bytes are looked up in the state of a stream, which is larger than
  ``--state_mb``, the memory that it may use in each slot; by a step that waits, and by a plain one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import logging
import multiprocessing
import os
import random
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import apache_beam as beam
from apache_beam.coders import BytesCoder
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.async_dofn import AsyncWrapper
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.utils.timestamp import Duration

import sparkdrain
from benchmarks.async_cost import IN_FLIGHT, bare
from benchmarks.jobs.numbers import Numbers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

SLOTS: Final = 2
WAIT: Final = 0.010
# Of Beam's AsyncWrapper: each key has a timer of its own.
KEYS: Final = 100
VALUE: Final = b"v" * 100
OURS: Final = ("--runner=SparkDrainRunner", f"--spark_master_url=local[{SLOTS}]", "--progress=off")
FN_API: Final = ("--runner=apache_beam.runners.portability.fn_api_runner.FnApiRunner",)
PAUSE: Final = Duration(0.005)  # of a source between two looks at the clock
WARM_UPS: Final = 3
SETTLE_SECONDS: Final = 8  # elements of the first seconds of a stream do not count
AT_ONCE: Final = 20_000  # elements after which a source hands back what is left


class Waits(beam.DoFn):
    async def process(self, element: Any) -> list[Any]:
        await asyncio.sleep(WAIT)
        return [element]


class Sleeps(beam.DoFn):
    def process(self, element: Any) -> list[Any]:
        time.sleep(WAIT)
        return [element]


class Returns(beam.DoFn):
    def process(self, element: Any) -> list[Any]:
        return [element]


def concurrently(dofn: beam.DoFn) -> beam.DoFn:
    """100 elements of it are in flight in each slot."""
    return sparkdrain.Concurrently(dofn, max_in_flight=IN_FLIGHT)


def wrapped() -> beam.DoFn:
    """The same by Beam's own means."""
    return AsyncWrapper(Waits(), parallelism=IN_FLIGHT, use_asyncio=True)


def counted(element: Any) -> Any:
    """Counts what leaves a step."""
    Metrics.counter("calls", "calls").inc()
    return element


def run(flags: Sequence[str], dofn: beam.DoFn, elements: int) -> tuple[float, int]:
    """Seconds that a pipeline takes whose elements are dealt out to all slots, and the lost ones.

    Raises:
        AssertionError: this runner has not let each element out once, or another one too many.
    """

    def numbers(part: int) -> Iterator[tuple[int, int]]:
        return ((number % KEYS, number) for number in range(part, elements, SLOTS))

    pipeline = beam.Pipeline(options=PipelineOptions(flags))
    _ = (
        pipeline
        | beam.Impulse()
        | "Parts" >> beam.FlatMap(lambda _: range(SLOTS)).with_output_types(int)
        | "Spread" >> beam.Reshuffle()
        | "Numbers" >> beam.FlatMap(numbers).with_output_types(tuple[int, int])
        | "Call" >> beam.ParDo(dofn).with_output_types(tuple[int, int])
        | "Count" >> beam.Map(counted)
    )
    began = time.perf_counter()
    result = pipeline.run()
    result.wait_until_finish()
    seconds = time.perf_counter() - began
    (counter,) = result.metrics().query(MetricsFilter().with_name("calls"))["counters"]
    lost = elements - counter.result
    assert lost == 0 if flags is OURS else 0 <= lost < elements, (flags, counter.result, elements)
    return seconds, lost


def measure_calls(elements: int, runs: int, prism: str) -> None:
    """Elements a second, of each way to call."""
    on_prism = ("--runner=PrismRunner", f"--prism_location={prism}", "--environment_type=LOOPBACK")
    few = max(elements // 50, SLOTS)
    ways: list[tuple[str, Sequence[str], Callable[[], beam.DoFn], int]] = [
        ("this runner, async def", OURS, lambda: concurrently(Waits()), elements),
        ("this runner, one after the other", OURS, Sleeps, few),
        ("this runner, Beam's AsyncWrapper", OURS, wrapped, elements),
        ("FnApiRunner, Beam's AsyncWrapper", FN_API, wrapped, few),
        ("FnApiRunner, one after the other", FN_API, Sleeps, few),
    ]
    if prism:
        ways.append(("Prism, Beam's AsyncWrapper", on_prism, wrapped, few))
        ways.append(("Prism, one after the other", on_prism, Sleeps, few))
    seconds: dict[str, list[float]] = defaultdict(list)
    lost: dict[str, int] = defaultdict(int)
    starts: dict[Sequence[str], list[float]] = {
        flags: [run(flags, Returns(), SLOTS)[0] for _ in range(WARM_UPS)][-1:]
        for flags in dict.fromkeys(flags for _, flags, _, _ in ways)
    }
    with ProcessPoolExecutor(SLOTS, multiprocessing.get_context("spawn")) as processes:
        bare_in(processes, SLOTS * IN_FLIGHT)  # both have started
        for _ in range(runs):
            seconds["bare asyncio"].append(bare_in(processes, elements))
            for flags, found in starts.items():
                found.append(run(flags, Returns(), SLOTS)[0])
            for name, flags, dofn, count in ways:
                took, missing = run(flags, dofn(), count)
                seconds[name].append(took)
                lost[name] += missing
    rates = {"bare asyncio": elements / min(seconds["bare asyncio"])}
    for name, flags, _, count in ways:
        rates[name] = count / max(min(seconds[name]) - min(starts[flags]), 1e-3)
    print(f"Calls of {WAIT * 1000:.0f} ms, {IN_FLIGHT} in flight in each of {SLOTS} slots:")
    for name, rate in rates.items():
        share = rate / rates["bare asyncio"]
        print(f"  {name:36} {rate:9,.0f} elements/s  {share:7.1%} of bare asyncio")
    for name, _, _, count in ways:
        if lost[name]:
            print(f"  {name} lost {lost[name]:,} of {count * runs:,} elements")
    if not prism:
        print("  Prism was left out: give the path of its program as --prism")


def bare_in(processes: ProcessPoolExecutor, elements: int) -> float:
    """Seconds that asyncio alone takes, in as many processes as there are slots."""
    began = time.perf_counter()
    for future in [processes.submit(bare, elements // SLOTS, WAIT) for _ in range(SLOTS)]:
        future.result()
    return time.perf_counter() - began


class ElementsOf(Numbers):
    """The numbers of a part's elements; a part is (its number, elements, when it begins)."""

    def initial_restriction(self, part: tuple[int, int, float]) -> OffsetRange:
        return OffsetRange(0, part[1])


class Drip(beam.DoFn):
    """Emits what is due by the clock: the moment at which it was due, in seconds since 1970."""

    def __init__(self, rate: float) -> None:
        self._rate = rate

    @beam.DoFn.unbounded_per_element()
    def process(
        self, part: tuple[int, int, float], tracker: Any = beam.DoFn.RestrictionParam(ElementsOf())
    ) -> Iterator[float]:
        _, count, begin = part
        for number in itertools.count(tracker.current_restriction().start):
            due = begin + number / self._rate
            if number < count and due > time.time():
                tracker.defer_remainder(PAUSE)
                return
            if not tracker.try_claim(number):
                return
            yield due


class Notes(beam.DoFn):
    """Writes a line of JSON for each bundle to a file of its process.

    Args:
        folder: of the files.
        of: what is noted of an element that comes.
    """

    def __init__(self, folder: str, of: Callable[[Any], Any]) -> None:
        self._folder = folder
        self._of = of

    def start_bundle(self) -> None:
        self._noted: list[Any] = []

    def process(self, element: Any) -> None:
        self._noted.append(self._of(element))

    def finish_bundle(self) -> None:
        with (Path(self._folder) / f"{os.getpid()}-{id(self)}").open("a") as file:
            file.write(json.dumps(self._noted) + "\n")


def noted(folder: str) -> list[Any]:
    """All that ``Notes`` have written."""
    lines = itertools.chain.from_iterable(
        file.read_text().splitlines() for file in Path(folder).iterdir()
    )
    return list(itertools.chain.from_iterable(map(json.loads, lines)))


def stream(
    flags: Sequence[str], elements: int, source: beam.DoFn, steps: Sequence[beam.DoFn]
) -> None:
    """Runs a stream whose source has a part in each slot, to its end."""
    options = PipelineOptions([*OURS, "--streaming", *flags])
    with beam.Pipeline(options=options) as pipeline:
        made = (
            pipeline
            | beam.Impulse()
            | "Parts"
            >> beam.FlatMap(
                lambda _: [(part, elements // SLOTS, time.time() + 1) for part in range(SLOTS)]
            ).with_output_types(tuple[int, int, float])
            | "Spread" >> beam.Reshuffle()
            | "Source" >> beam.ParDo(source)
        )
        for number, step in enumerate(steps):
            made = made | f"Step {number}" >> beam.ParDo(step)


def measure_latency(rate: int, seconds: float) -> None:
    """How late results leave a step in a stream."""
    print(f"Milliseconds from source to result in a stream of {rate:,} elements/s:")
    added = []
    for name, dofn, own in (
        (f"calls of {WAIT * 1000:.0f} ms, without those", concurrently(Waits()), WAIT),
        ("no calls", Returns(), 0.0),
    ):
        with tempfile.TemporaryDirectory(prefix="async-") as folder:
            drip, notes = Drip(rate / SLOTS), Notes(folder, lambda due: (due, time.time() - due))
            stream((), int(rate * (SETTLE_SECONDS + seconds)), drip, [dofn, notes])
            found = noted(folder)
            begin = min(due for due, _ in found) + SETTLE_SECONDS
            delays = sorted(delay for due, delay in found if due >= begin)
        p50, p99, most = (
            1000 * (delays[min(int(len(delays) * part), len(delays) - 1)] - own)
            for part in (0.5, 0.99, 1)
        )
        added.append(p99)
        print(f"  {name:30} p50 {p50:6.1f}  p99 {p99:6.1f}  most {most:6.1f}  of {len(delays):,}")
    print(f"  calls add {added[0] - added[1]:.1f} ms to the p99")


class FillAndAsk(beam.DoFn):
    """Emits each key of a part once, so that it is written, and then keys at random."""

    def __init__(self, keys: int) -> None:
        self._keys = keys // SLOTS

    @beam.DoFn.unbounded_per_element()
    def process(
        self, part: tuple[int, int, float], tracker: Any = beam.DoFn.RestrictionParam(ElementsOf())
    ) -> Iterator[tuple[int, bool]]:
        number_of_part, _, _ = part
        begin = tracker.current_restriction().start
        chance = random.Random(begin)
        for number in range(begin, begin + AT_ONCE):
            if not tracker.try_claim(number):
                return
            asks = number >= self._keys
            key = chance.randrange(self._keys) if asks else number
            yield key * SLOTS + number_of_part, asks
        tracker.defer_remainder()


class LooksUp(beam.DoFn):
    """Writes the value of a key, or looks it up."""

    KEPT = ReadModifyWriteStateSpec("kept", BytesCoder())

    def process(
        self, element: tuple[int, bool], kept: Any = beam.DoFn.StateParam(KEPT)
    ) -> Iterator[int]:
        _, asks = element
        if asks:
            yield len(kept.read())
        else:
            kept.write(VALUE)


class LooksUpInFlight(LooksUp):
    """The same as an asynchronous step."""

    async def process(  # type: ignore[override]
        self, element: tuple[int, bool], kept: Any = beam.DoFn.StateParam(LooksUp.KEPT)
    ) -> AsyncIterator[int]:
        for found in super().process(element, kept):
            yield found


def measure_lookups(keys: int, lookups: int, state_mb: int) -> None:
    """Lookups a second, from the first one to the last one."""
    size = keys * len(VALUE) >> 20
    print(
        f"Lookups of {len(VALUE)} bytes among {keys:,} keys, {size:,} MiB of values in "
        f"{SLOTS} slots with {state_mb} MiB of memory for state in each, {SLOTS} of "
        f"{os.cpu_count()} cores:"
    )
    flags = (f"--state_memory_mb={state_mb}",)
    rates = {}
    for name, dofn in (
        ("async def", concurrently(LooksUpInFlight())),
        ("plain", LooksUp()),
    ):
        with tempfile.TemporaryDirectory(prefix="async-") as folder:
            notes = Notes(folder, lambda found: (time.time(), found))
            fill = FillAndAsk(keys)
            stream(flags, keys + lookups, fill, [dofn, notes])
            found = noted(folder)
        assert {size for _, size in found} == {len(VALUE)}
        times = [at for at, _ in found]
        rates[name] = len(times) / max(max(times) - min(times), 1e-3)
        print(f"  {name:10} {rates[name]:9,.0f} lookups/s of {len(times):,}")
    print(f"  async def has {rates['async def'] / rates['plain']:.0%} of the rate of a plain DoFn")


def main() -> None:
    """Measures and prints."""
    parts = ("calls", "latency", "lookups")
    parser = argparse.ArgumentParser(prog="python -m benchmarks.async_calls")
    parser.add_argument("parts", nargs="*", choices=[*parts, []], default=[])
    parser.add_argument("--elements", type=int, default=200_000, help="calls")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--prism", default="", help="path of Prism's program")
    parser.add_argument("--rate", type=int, default=5_000, help="of the stream, elements/s")
    parser.add_argument("--seconds", type=float, default=20, help="how long the stream takes")
    parser.add_argument("--keys", type=int, default=4_000_000, help="with a value to look up")
    parser.add_argument("--lookups", type=int, default=500_000)
    parser.add_argument("--state_mb", type=int, default=32, help="memory for state of a slot")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    chosen = options.parts or parts
    with contextlib.suppress(KeyboardInterrupt):
        if "calls" in chosen:
            measure_calls(options.elements, options.runs, options.prism)
        if "latency" in chosen:
            measure_latency(options.rate, options.seconds)
        if "lookups" in chosen:
            measure_lookups(options.keys, options.lookups, options.state_mb)


if __name__ == "__main__":
    main()
