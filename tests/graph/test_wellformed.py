from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.errors import Malformed
from sparkdrain.graph.wellformed import check_wellformed


@pytest.fixture
def proto() -> beam_runner_api_pb2.Pipeline:
    pipeline = beam.Pipeline(runner="DirectRunner")
    pipeline | "Make" >> beam.Create([1]) | "Twice" >> beam.Map(lambda x: 2 * x)
    return pipeline.to_runner_api()


def of(proto, name: str):
    return next(t for t in proto.components.transforms.values() if t.unique_name == name)


def test_what_an_sdk_makes_is_well_formed(proto):
    check_wellformed(proto)
    check_wellformed(beam_runner_api_pb2.Pipeline())


def a_root_that_is_missing(proto):
    proto.root_transform_ids.append("nothing")


def an_input_that_is_missing(proto):
    of(proto, "Twice").inputs["0"] = "nothing"


def a_part_that_is_missing(proto):
    of(proto, "Make").subtransforms.append("nothing")


def an_environment_that_is_missing(proto):
    of(proto, "Twice").environment_id = "nothing"


def a_coder_that_is_missing(proto):
    output = of(proto, "Twice").outputs.values()
    proto.components.pcollections[next(iter(output))].coder_id = "nothing"


def a_strategy_that_is_missing(proto):
    output = of(proto, "Twice").outputs.values()
    proto.components.pcollections[next(iter(output))].windowing_strategy_id = "nothing"


@pytest.mark.parametrize(
    ("spoil", "owner", "kind"),
    [
        (a_root_that_is_missing, "The pipeline", "root transform"),
        (an_input_that_is_missing, ".*'Twice'", "PCollection"),
        (a_part_that_is_missing, ".*'Make'", "subtransform"),
        (an_environment_that_is_missing, ".*'Twice'", "environment"),
        (a_coder_that_is_missing, ".*'Twice'", "coder"),
        (a_strategy_that_is_missing, ".*'Twice'", "windowing strategy"),
    ],
)
def test_what_is_missing_is_named_with_its_transform(proto, spoil, owner, kind):
    spoil(proto)
    with pytest.raises(Malformed, match=rf"{owner} refers to the {kind} 'nothing'"):
        check_wellformed(proto)


def test_a_transform_that_contains_itself_is_named(proto):
    key = next(k for k, t in proto.components.transforms.items() if t.unique_name == "Make")
    inner = proto.components.transforms[key].subtransforms[0]
    proto.components.transforms[inner].subtransforms.append(key)
    with pytest.raises(Malformed, match="contains itself"):
        check_wellformed(proto)
