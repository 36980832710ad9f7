"""What is too large to be shuffled is refused with its name and size."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from sparkdrain.errors import TooLarge
from sparkdrain.shuffle import outbox
from sparkdrain.shuffle.outbox import Outbox, ShuffleLayout, SparkPartition


def test_the_largest_block_passes_and_one_byte_more_does_not(monkeypatch):
    monkeypatch.setattr(outbox, "LARGEST_BLOCK", 100)
    sent: list[bytes] = []
    box = Outbox(
        ShuffleLayout(1, 2, 0), 0, 0, 1, lambda _, record: sent.append(record), names={7: "Big"}
    )
    box.put(7, SparkPartition(0), b"." * 100)
    with pytest.raises(TooLarge, match="'Big'"):
        box.put(7, SparkPartition(0), b"." * 101)
    assert len(sent) == 1


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("shuffle", ["GroupByKey", "Reshuffle"])
def test_an_element_that_is_too_large_names_its_transform_and_its_size(shuffle):
    options = PipelineOptions(
        ["--spark_master_url=local[1]", "--progress=off"], runner="sparkdrain.SparkDrainRunner"
    )
    behind = beam.GroupByKey() if shuffle == "GroupByKey" else beam.Reshuffle()
    with pytest.raises(TooLarge) as failed, beam.Pipeline(options=options) as p:
        big = p | beam.Create([1]) | "Grow" >> beam.Map(lambda n: (n, b"." * ((1 << 30) + 1)))
        _ = big | behind | beam.Map(lambda _: None)
    text = str(failed.value)
    assert text.startswith("What 'Grow' puts out cannot be shuffled")
    assert "takes 1.00 GiB encoded" in text
