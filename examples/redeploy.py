"""A stateful stream gets a new version that cannot read the old one's state: drain, then start.

Visits of pages are counted in windows of an hour. Version 1 counts by page. Version 2 counts by
page and browser, and adds up how long visitors stayed: other keys, other values, other state.

    python integration/kafka_broker.py --topic visits:4 --topic hours    # in a terminal of its own
    python examples/redeploy.py --version=1 --runner=SparkDrainRunner --job_name=visits \
        --checkpoint_dir=out/checkpoints --metadata_store=file:$PWD/out/drain
    sparkdrain drain visits --metadata_store=file:$PWD/out/drain              # in another terminal
    python examples/redeploy.py --version=2 ...                          # the same for the rest

The hours that version 1 had open come out when it is drained, with what they had. Version 2 goes on
with the first record that version 1 has not read. Each record is counted once, by one of them. An
hour in which the versions changed has two lines, which add up.

Without the drain there is no way: version 2 refuses version 1's checkpoint (`--resume`), for its
keys are others. Begun anew, it would never see what is in version 1's open windows.
"""

# No `from __future__ import annotations`: Beam chooses coders by the annotations' types.
import argparse
import json
import sys
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows

from sparkdrain.io.kafka import ReadFromKafka, WriteToKafka

HOUR = 3600


def visit_of(record: tuple[bytes | None, bytes | None]) -> dict[str, Any]:
    """A visit: page, browser, seconds."""
    visit: dict[str, Any] = json.loads(record[1] or b"{}")
    return visit


def page_of(visit: dict[str, Any]) -> tuple[str, int]:
    """Version 1's key and value."""
    return visit["page"], 1


def page_and_browser_of(visit: dict[str, Any]) -> tuple[tuple[str, str], tuple[int, float]]:
    """Version 2's key and value."""
    return (visit["page"], visit["browser"]), (1, visit["seconds"])


def added_up(parts: Iterable[tuple[int, float]]) -> tuple[int, float]:
    """Version 2's sum."""
    visits, seconds = 0, 0.0
    for part in parts:
        visits += part[0]
        seconds += part[1]
    return visits, seconds


class AsRecord(beam.DoFn):
    """Makes a record of a sum, which tells its version and its hour."""

    def __init__(self, version: int) -> None:
        self._version = version

    def process(
        self, summed: tuple[Any, Any], window: Any = beam.DoFn.WindowParam
    ) -> list[tuple[bytes, bytes]]:
        key, value = summed
        hour = datetime.fromtimestamp(float(window.start), timezone.utc).isoformat()
        line: dict[str, Any] = {"version": self._version, "hour": hour}
        if self._version == 1:
            line |= {"page": key, "visits": value}
        else:
            line |= {"page": key[0], "browser": key[1], "visits": value[0], "seconds": value[1]}
        return [(line["page"].encode(), json.dumps(line).encode())]


def build(pipeline: beam.Pipeline, given: argparse.Namespace) -> None:
    """Reads, sums and writes."""
    visits = (
        pipeline
        | "Read"
        >> ReadFromKafka(
            given.bootstrap_servers,
            given.input,
            start="committed",
            commit_offsets=True,
            consumer_config={"group.id": given.group},
        )
        | "Visit" >> beam.Map(visit_of)
    )
    if given.version == 1:
        summed = (
            visits
            | "Page" >> beam.Map(page_of)
            | "Hour" >> beam.WindowInto(FixedWindows(HOUR))
            | "Visits" >> beam.CombinePerKey(sum)
        )
    else:
        summed = (
            visits
            | "Page and browser" >> beam.Map(page_and_browser_of)
            | "Hour" >> beam.WindowInto(FixedWindows(HOUR))
            | "Visits and seconds" >> beam.CombinePerKey(added_up)
        )
    _ = (
        summed
        | "As record" >> beam.ParDo(AsRecord(given.version))
        | "Write"
        >> WriteToKafka(given.bootstrap_servers, given.output, exactly_once=f"{given.group}-hours")
    )


def parse(argv: list[str]) -> tuple[argparse.Namespace, PipelineOptions]:
    """Our own options, and those of Beam and the runner."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", type=int, choices=[1, 2], required=True)
    parser.add_argument("--bootstrap_servers", default="localhost:9092", help="host:port, ...")
    parser.add_argument("--input", default="visits", help="topic to read")
    parser.add_argument("--output", default="hours", help="topic to write")
    parser.add_argument("--group", default="visits", help="whose offsets say where to go on")
    known, rest = parser.parse_known_args(argv)
    return known, PipelineOptions(rest, streaming=True, save_main_session=True)


def main(argv: list[str]) -> None:
    """Runs until it is drained or cancelled."""
    known, options = parse(argv)
    with beam.Pipeline(options=options) as pipeline:
        build(pipeline, known)


if __name__ == "__main__":
    main(sys.argv[1:])
