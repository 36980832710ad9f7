from __future__ import annotations

from pathlib import Path

import pytest
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


def test_golden_files_have_a_pipeline_each():
    files = Path(__file__).parents[1].glob("golden/graph/*.txt")
    plans = {path.stem for path in files if not path.stem.startswith("pass-")}
    assert plans == PIPELINES.keys()
