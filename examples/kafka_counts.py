"""Counts what comes in by Kafka, key by key and window by window, and writes it back to Kafka.

    python integration/kafka_broker.py --topic clicks:4 --topic counts    # in a terminal of its own
    python examples/kafka_counts.py --runner=SparkDrainRunner \
        --bootstrap_servers localhost:9092 --input clicks --output counts --window 10

Each record that is written has the key it counts, and as value a line of JSON:

    {"key": "home", "window": "2026-03-01T12:00:00+00:00", "count": 17}

Connections that need a password take Kafka's settings, name=value, such as
``--config security.protocol=SASL_SSL``. Every option that `--help` does not list goes to Beam and
the runner.
"""

# No `from __future__ import annotations`: Beam chooses coders by the annotations' types.
import argparse
import json
import sys
from datetime import datetime, timezone
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows

from sparkdrain.io.kafka import ReadFromKafka, Watermarks, WriteToKafka


def key_of(record: tuple[bytes | None, bytes | None]) -> str:
    """The key of a record, as text."""
    key, _ = record
    return "" if key is None else key.decode(errors="replace")


class AsRecord(beam.DoFn):
    """Makes a record of a count, which tells its window."""

    def process(
        self, counted: tuple[str, int], window: Any = beam.DoFn.WindowParam
    ) -> list[tuple[bytes, bytes]]:
        key, count = counted
        start = datetime.fromtimestamp(float(window.start), timezone.utc).isoformat()
        line = json.dumps({"key": key, "window": start, "count": count})
        return [(key.encode(), line.encode())]


def build(pipeline: beam.Pipeline, given: argparse.Namespace) -> None:
    """Reads, counts and writes."""
    config = dict(pair.split("=", 1) for pair in given.config)
    _ = (
        pipeline
        | "Read"
        >> ReadFromKafka(
            given.bootstrap_servers,
            given.input,
            start=given.start,
            stop=given.stop,
            watermarks=Watermarks(out_of_order=given.out_of_order, idle_after=given.idle_after),
            consumer_config=config,
            client=given.client,
        )
        | "Key" >> beam.Map(key_of)
        | "Window" >> beam.WindowInto(FixedWindows(given.window))
        | "Count" >> beam.combiners.Count.PerElement()
        | "As record" >> beam.ParDo(AsRecord())
        | "Write"
        >> WriteToKafka(
            given.bootstrap_servers,
            given.output,
            producer_config={name: config[name] for name in config if name != "group.id"},
            client=given.client,
        )
    )


def main(argv: list[str]) -> None:
    """Runs until it is cancelled, or with ``--stop latest`` until all is read."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap_servers", default="localhost:9092", help="host:port, ...")
    parser.add_argument("--input", default="clicks", help="topic to read")
    parser.add_argument("--output", default="counts", help="topic to write")
    parser.add_argument("--start", default="earliest", help="earliest, latest or committed")
    parser.add_argument("--stop", choices=["latest"], help="read what is there, and end")
    parser.add_argument("--window", type=float, default=10.0, help="seconds")
    parser.add_argument("--out_of_order", type=float, default=2.0, help="seconds")
    parser.add_argument("--idle_after", type=float, default=5.0, help="seconds")
    parser.add_argument("--client", default="auto", help="kafka-python, confluent-kafka or auto")
    parser.add_argument("--config", action="append", default=[], metavar="NAME=VALUE")
    known, rest = parser.parse_known_args(argv)
    options = PipelineOptions(rest, streaming=known.stop is None, save_main_session=True)
    with beam.Pipeline(options=options) as pipeline:
        build(pipeline, known)


if __name__ == "__main__":
    main(sys.argv[1:])
