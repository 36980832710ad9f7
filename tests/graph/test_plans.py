from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from apache_beam.portability.api import beam_runner_api_pb2
from planning_rules import PIPELINES, proto_of
from written import plan_text

from sparkdrain.graph.check import check
from sparkdrain.graph.translate import translate


@pytest.mark.parametrize("rule", PIPELINES)
def test_a_plan_follows_the_rule(rule, golden):
    pipeline = proto_of(PIPELINES[rule])
    check(pipeline)
    golden(rule, plan_text(translate(pipeline)))


@pytest.mark.parametrize("rule", PIPELINES)
def test_planning_twice_gives_the_same_and_keeps_the_pipeline(rule):
    pipeline = proto_of(PIPELINES[rule])
    before = pipeline.SerializeToString(deterministic=True)
    first = translate(pipeline)
    assert pipeline.SerializeToString(deterministic=True) == before
    assert plan_text(translate(pipeline)) == plan_text(first)


@pytest.mark.parametrize("rule", PIPELINES)
def test_one_stage_counts_the_elements_of_a_pcollection(rule):
    plan = translate(proto_of(PIPELINES[rule]))
    made, counted = set(), Counter()
    for stage in (stage for level in plan.levels for stage in level):
        protos = [beam_runner_api_pb2.PTransform.FromString(data) for _, data in stage.transforms]
        here = {output for proto in protos for output in proto.outputs.values()}
        made |= here
        counted.update(here.difference(stage.counted_elsewhere))
    # A further edge of a PCollection has a name that nobody knows.
    assert counted == {each: 1 for each in made if " of edge " not in each}


def test_golden_files_have_a_pipeline_each():
    files = Path(__file__).parents[1].glob("golden/graph/*.txt")
    plans = {path.stem for path in files if not path.stem.startswith("pass-")}
    assert plans == PIPELINES.keys()
