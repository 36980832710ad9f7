"""A program that copies a topic of Kafka into another, exactly once, and counts by key.

It is drained as soon as there is a file ``drain`` in its folder. ``kafka_kills`` runs and kills it.
With a port of ``slow_service`` it asks that service for each record, many at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import threading
from pathlib import Path

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import CombiningValueStateSpec

import sparkdrain
from sparkdrain.io.kafka import ProducerRecord, ReadFromKafka, WriteToKafka

JOB = "copy"
GROUPS = 4


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


def marked(element):
    """A record that is another one each time it is made: by its header."""
    key, value = element
    return ProducerRecord(key, value, headers=(("made", os.urandom(8)),))


class Ask(beam.DoFn):
    """Has a service say the value, by HTTP."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def process(self, element):
        key, value = element
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(b"GET /%s HTTP/1.0\r\n\r\n" % value)
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
        if b" 200 " not in head:
            raise ConnectionError(head)
        return [(key, body)]


def copy(
    pipeline: beam.Pipeline,
    broker: str,
    source: str,
    target: str,
    folder: Path,
    client: str,
    port: int = 0,
    *,
    carry_over: bool = False,
    marks: bool = False,
):
    """Put the job together."""
    pids = folder / "pids"
    pids.mkdir(exist_ok=True)
    records = pipeline | ReadFromKafka(broker, source, start="earliest", client=client)
    if port:
        asking = sparkdrain.Concurrently(
            Ask(port), 50, timeout=20, retries=5, carry_over=carry_over
        )
        records = records | beam.ParDo(asking)
    counted = records | beam.ParDo(Count(str(pids)))
    if marks:
        counted = counted | beam.Map(marked).with_output_types(ProducerRecord)
    _ = counted | WriteToKafka(broker, target, exactly_once=target, groups=GROUPS, client=client)


def main() -> None:
    """Run it until it is drained."""
    logging.basicConfig(level=logging.INFO, force=True, format="%(asctime)s %(message)s")
    for noisy in ("apache_beam", "azure"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    parser = argparse.ArgumentParser()
    for name in ("broker", "source", "target", "folder", "client"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--port", type=int, default=0)
    for name in ("carry_over", "marks"):
        parser.add_argument(f"--{name}", action="store_true")
    given, flags = parser.parse_known_args()
    pipeline = beam.Pipeline(options=PipelineOptions(flags))
    folder = Path(given.folder)
    copy(
        pipeline,
        given.broker,
        given.source,
        given.target,
        folder,
        given.client,
        given.port,
        carry_over=given.carry_over,
        marks=given.marks,
    )
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
