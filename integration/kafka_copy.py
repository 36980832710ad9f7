"""A program that copies a topic of Kafka into another, exactly once, and counts by key.

It is drained as soon as there is a file ``drain`` in its folder. ``kafka_kills`` runs and kills it.
"""

from __future__ import annotations

import argparse
import logging
import os
import threading
from pathlib import Path

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import CombiningValueStateSpec

from sparkdrain.io.kafka import ReadFromKafka, WriteToKafka

JOB = "copy"


class Count(beam.DoFn):
    """Adds to each value how many its key has had; leaves a file named by its process."""

    COUNT = CombiningValueStateSpec("count", VarIntCoder(), sum)

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def setup(self) -> None:
        Path(self._folder, str(os.getpid())).touch()

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        count.add(1)
        key, value = element
        yield key, b"%s %d" % (value, count.read())


def copy(pipeline: beam.Pipeline, broker: str, source: str, target: str, folder: Path, client: str):
    """Put the job together."""
    pids = folder / "pids"
    pids.mkdir(exist_ok=True)
    _ = (
        pipeline
        | ReadFromKafka(broker, source, start="earliest", client=client)
        | beam.ParDo(Count(str(pids)))
        | WriteToKafka(broker, target, exactly_once=target, groups=4, client=client)
    )


def main() -> None:
    """Run it until it is drained."""
    logging.basicConfig(level=logging.INFO, force=True, format="%(asctime)s %(message)s")
    for noisy in ("apache_beam", "azure"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    parser = argparse.ArgumentParser()
    for name in ("broker", "source", "target", "folder", "client"):
        parser.add_argument(f"--{name}", required=True)
    given, flags = parser.parse_known_args()
    pipeline = beam.Pipeline(options=PipelineOptions(flags))
    folder = Path(given.folder)
    copy(pipeline, given.broker, given.source, given.target, folder, given.client)
    result = pipeline.run()
    ended = threading.Event()

    def drain() -> None:
        while not ended.wait(0.2):
            if (folder / "drain").exists():
                result.drain()
                return

    threading.Thread(target=drain, daemon=True).start()
    result.wait_until_finish()
    ended.set()


if __name__ == "__main__":
    main()
