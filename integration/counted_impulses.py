"""A program that counts impulses by key, and prints what was counted as JSON.

    python counted_impulses.py BEGIN [options of the pipeline]

BEGIN is the time of the first impulse, in seconds since 1970.
"""

from __future__ import annotations

import json
import sys

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.userstate import CombiningValueStateSpec

KEYS, EVERY = 3, 0.05
# More than will ever come.
IMPULSES = 10**6


class Counted(beam.DoFn):
    """Counts the elements of each key."""

    COUNT = CombiningValueStateSpec("count", VarIntCoder(), sum)

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        count.add(1)
        Metrics.counter("live", "seen").inc()
        Metrics.distribution("live", "counts").update(count.read())


def main() -> None:
    begin, *flags = sys.argv[1:]
    start = float(begin)
    pipeline = beam.Pipeline(options=PipelineOptions(flags))
    _ = (
        pipeline
        | PeriodicImpulse(start, start + IMPULSES * EVERY, EVERY)
        | beam.Map(lambda now: (round((now - start) / EVERY) % KEYS, now)).with_output_types(
            tuple[int, float]
        )
        | beam.ParDo(Counted())
    )
    result = pipeline.run()
    result.wait_until_finish()
    found = result.metrics().query()
    (seen,) = [c.committed for c in found["counters"] if c.key.metric.name == "seen"]
    (counts,) = [d.committed for d in found["distributions"] if d.key.metric.name == "counts"]
    print(json.dumps([result.state, seen, counts.max, counts.sum]))


if __name__ == "__main__":
    main()
