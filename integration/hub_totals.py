"""Counts the events of a hub, or of a topic, by key; writes the totals when the job is drained.

Arguments: a folder to note numbers in, `amqp` or `kafka`, an address or connection string, what
to read, what to write, and flags.
"""

from __future__ import annotations

import sys

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows
from process_program import note

from sparkdrain.io.eventhubs import ReadFromEventHubs, WriteToEventHubs
from sparkdrain.io.kafka import ReadFromKafka, WriteToKafka

_LONG = 10**9


def of_a_namespace(connection_string: str) -> dict[str, str]:
    """Settings of Kafka clients for Event Hubs; the real service wants SASL_SSL."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "$ConnectionString",
        "sasl.password": connection_string,
    }


def main(arguments: list[str]) -> int:
    folder, surface, address, source, target, *flags = arguments
    if surface == "amqp":
        read = ReadFromEventHubs(source, connection_string=address)
        write = WriteToEventHubs(target, connection_string=address)
    else:
        servers, _, secret = address.partition("|")
        settings = of_a_namespace(secret)
        read = ReadFromKafka(servers, source, consumer_config=settings)
        write = WriteToKafka(servers, target, producer_config=settings)
    pipeline = beam.Pipeline(options=PipelineOptions(flags))
    totals = (
        pipeline
        | "Read" >> read
        | beam.Map(lambda pair: (pair[0], int(pair[1])))
        | beam.Map(noted_down, folder)
        | beam.WindowInto(FixedWindows(_LONG))  # which a drain ends
        | beam.CombinePerKey(beam.combiners.TupleCombineFn(CountAll(), sum).with_common_input())
        | beam.Map(lambda pair: (pair[0], b"%d %d" % pair[1]))
    )
    _ = totals | "Write" >> write
    result = pipeline.run()
    result.wait_until_finish()
    print(result.state, flush=True)
    return 0


def noted_down(pair: tuple[bytes, int], folder: str) -> tuple[bytes, int]:
    """The pair, once its number is in a file."""
    note(folder, "read", pair[1])
    return pair


class CountAll(beam.CombineFn):
    """How many there are."""

    def create_accumulator(self):
        return 0

    def add_input(self, count, _):
        return count + 1

    def merge_accumulators(self, counts):
        return sum(counts)

    def extract_output(self, count):
        return count


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
