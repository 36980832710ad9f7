"""What elements in flight cost, beside bare asyncio and a plain DoFn, in one process without Spark.

Run: ``python -m benchmarks.async_cost [--elements N] [--runs N]``, by default with 20,000 elements
that wait for 5 ms, and with five times as many that do not, 3 runs in turns, of which the best
counts. A pipeline's figure is its time without that of the same pipeline for one element: seconds
of the wall clock where elements wait, else this process's CPU time.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import time
from typing import TYPE_CHECKING, Any, Final

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

import sparkdrain
from sparkdrain.harness.concurrent.loop import new_loop
from tests.support.in_memory import run_in_memory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

WAIT: Final = 0.005
IN_FLIGHT: Final = 100
COUNT: Final = ReadModifyWriteStateSpec("count", VarIntCoder())


class Sleeps(beam.DoFn):
    def process(self, element: int) -> list[int]:
        time.sleep(WAIT)
        return [element]


class Waits(beam.DoFn):
    async def process(self, element: int) -> list[int]:
        await asyncio.sleep(WAIT)
        return [element]


class Returns(beam.DoFn):
    def process(self, element: int) -> list[int]:
        return [element]


class ReturnsSoon(beam.DoFn):
    async def process(self, element: int) -> list[int]:
        return [element]


class Counts(beam.DoFn):
    def process(
        self, element: tuple[int, int], count: Any = beam.DoFn.StateParam(COUNT)
    ) -> Iterator[int]:
        count.write((count.read() or 0) + 1)
        yield element[1]


class CountsSoon(beam.DoFn):
    async def process(
        self, element: tuple[int, int], count: Any = beam.DoFn.StateParam(COUNT)
    ) -> AsyncIterator[int]:
        count.write((count.read() or 0) + 1)
        yield element[1]


class CountsAndWaits(beam.DoFn):
    async def process(
        self, element: tuple[int, int], count: Any = beam.DoFn.StateParam(COUNT)
    ) -> AsyncIterator[int]:
        await asyncio.sleep(WAIT)
        count.write((count.read() or 0) + 1)
        yield element[1]


def bare(elements: int, wait: float = WAIT) -> float:
    """Seconds that as many workers take, in a loop as steps have it."""
    loop = new_loop()
    left = iter(range(elements))

    async def worker() -> None:
        for _ in left:
            await asyncio.sleep(wait)

    async def all_of_them() -> None:
        await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))

    began = time.perf_counter()
    loop.run_until_complete(all_of_them())
    seconds = time.perf_counter() - began
    loop.close()
    return seconds


def piped(
    dofn: beam.DoFn, clock: Callable[[], float] = time.perf_counter, *, keyed: bool = False
) -> Callable[[int], float]:
    """Seconds that a pipeline takes with a DoFn; ``keyed``: each element has a key of its own."""

    def run(elements: int) -> float:
        def made(_: bytes) -> Iterator[Any]:
            numbers = range(elements)
            return iter([(n, n) for n in numbers] if keyed else numbers)

        pipeline = beam.Pipeline(options=PipelineOptions([]))
        _ = pipeline | beam.Impulse() | beam.FlatMap(made) | beam.ParDo(dofn)
        began = clock()
        run_in_memory(pipeline, slots=1)
        return clock() - began

    return run


def best(ways: dict[str, Callable[[int], float]], elements: int, runs: int) -> dict[str, float]:
    """Microseconds for an element, by way."""
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, way in ways.items():
            seconds[name].append((way(1), way(elements + 1)))
    found = {}
    for name, measured in seconds.items():
        one, many = map(min, zip(*measured, strict=True))
        found[name] = (many - one) / elements * 1e6
    return found


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    piped(Returns())(1)  # imports what pipelines need
    gc.collect()
    gc.freeze()  # as Spark's workers do
    gc.set_threshold(100_000, 20, 50)

    def concurrent(dofn: beam.DoFn) -> beam.DoFn:
        return sparkdrain.Concurrently(dofn, max_in_flight=IN_FLIGHT)

    waiting = {
        "bare asyncio": bare,
        "async def": piped(concurrent(Waits())),
        "async def with state": piped(concurrent(CountsAndWaits()), keyed=True),
        "threads": piped(concurrent(Sleeps())),
    }
    found = best(waiting, options.elements, options.runs)
    alone = best({"plain": piped(Sleeps())}, max(options.elements // 100, 1), 1)["plain"]
    print(f"{IN_FLIGHT} in flight, each waits for {WAIT * 1000:.0f} ms:")
    for name, micros in {**found, "plain, one after the other": alone}.items():
        share = found["bare asyncio"] / micros
        print(f"  {name:28} {1e6 / micros:9,.0f} elements/s  {share:6.1%} of bare asyncio")
    print("Never waiting, CPU time for an element:")
    used = time.process_time
    for pair in (
        {"plain": piped(Returns(), used), "async def": piped(ReturnsSoon(), used)},
        {
            "plain with state": piped(Counts(), used, keyed=True),
            "async def with state": piped(CountsSoon(), used, keyed=True),
        },
    ):
        found = best(pair, 5 * options.elements, options.runs)
        before, after = found.values()
        print(f"  {', '.join(f'{name} {micros:.2f} us' for name, micros in found.items())}")
        print(f"  {'':4}+{after - before:.2f} us, {after / before:.1f} times")


if __name__ == "__main__":
    main()
