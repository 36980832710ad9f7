"""``gated_drain``, and beside it a topic of Kafka that is copied into another, exactly once.

Records wait in windows of an hour, so that next to all of them are copied by the drain. What comes
behind the checkpoint that the copy wants is told to the outside between the two last ones.
"""

from __future__ import annotations

import argparse
import os
import sys

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows

from sparkdrain.io.kafka import ReadFromKafka, WriteToKafka
from sparkdrain.io.stable import StableParDo
from tests.support import gated_drain
from tests.support.gated_drain import Places, Write

HOUR = 3600


class Note(beam.DoFn):
    """Writes down what was read from the topic."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(self, element):
        with open(Places(self._folder).root / f"copied-{os.getpid()}", "a") as file:
            file.write(f"{int(element[1])}\n")
        yield element


def texts(key: bytes, values) -> tuple[str, list[str]]:
    return key.decode(), [value.decode() for value in values]


def read(folder) -> list[int]:
    """What was read from the topic, in all lives."""
    texts = [path.read_text() for path in Places(folder).root.glob("copied-*")]
    return [int(line) for text in texts for line in text.split("\n")[:-1]]


def copy(pipeline: beam.Pipeline, folder: str, broker: str, source: str, target: str) -> None:
    hours = (
        pipeline
        | ReadFromKafka(broker, source, commit_offsets=True, consumer_config={"group.id": source})
        | "note" >> beam.ParDo(Note(folder))
        | "hours" >> beam.WindowInto(FixedWindows(HOUR))
        | "of an hour" >> beam.GroupByKey()
    )
    _ = hours | "texts" >> beam.MapTuple(texts) | "stable" >> StableParDo(Write(folder, "stable"))
    _ = (
        hours
        | "again" >> beam.FlatMapTuple(lambda key, values: [(key, value) for value in values])
        | WriteToKafka(broker, target, exactly_once=target, groups=4)
    )


def main(arguments: list[str]) -> int:
    """Runs it with these options; 0 if it was drained."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    for name in ("broker", "source", "target"):
        parser.add_argument(f"--{name}", required=True)
    given, flags = parser.parse_known_args(arguments)
    pipeline = beam.Pipeline(options=PipelineOptions(flags))
    gated_drain.build(pipeline, given.folder)
    copy(pipeline, given.folder, given.broker, given.source, given.target)
    result = pipeline.run()
    print(result.wait_until_finish(), flush=True)
    return int(result.state != "DRAINED")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
