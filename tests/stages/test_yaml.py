"""Pipelines in Beam YAML run on Spark as they are."""

import json

import pytest
from apache_beam.yaml import main

from tests.stages.conftest import MASTER

pytestmark = pytest.mark.spark

PIPELINE = """
pipeline:
  type: chain
  transforms:
    - type: ReadFromCsv
      config: {{path: {folder}/trips.csv}}
    - type: Filter
      config: {{language: python, keep: miles > 0}}
    - type: Combine
      config:
        language: python
        group_by: town
        combine: {{miles: {{value: miles, fn: sum}}}}
    - type: MapToFields
      config:
        language: python
        fields: {{town: town, km: {{callable: "lambda trip: trip.miles * 1.6"}}}}
    - type: WriteToJson
      config: {{path: {folder}/out}}
"""


@pytest.mark.parametrize("mode", [[], ["--streaming"]], ids=["batch", "streaming"])
def test_a_pipeline_in_yaml_reads_groups_and_writes(mode, tmp_path):
    (tmp_path / "trips.csv").write_text("town,miles\na,10\nb,0\na,20\nc,5\n", "utf-8")
    spec = PIPELINE.format(folder=tmp_path)
    own = ["--runner=sparkdrain.SparkDrainRunner", MASTER, "--progress=off", *mode]
    main.run([f"--yaml_pipeline={spec}", *own])
    texts = [file.read_text("utf-8") for file in tmp_path.glob("out*")]
    written = [json.loads(line) for text in texts for line in text.splitlines()]
    assert sorted((row["town"], row["km"]) for row in written) == [("a", 48), ("c", 8)]
