"""How plans for rounds lead side inputs to those who read them."""

from __future__ import annotations

from collections import Counter

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.pvalue import AsIter, AsMultiMap
from apache_beam.transforms import environments
from apache_beam.transforms.userstate import CombiningValueStateSpec

from sparkdrain.graph.plan import EdgeKind
from sparkdrain.graph.translate import translate

pytestmark = pytest.mark.filterwarnings("ignore")


def plan_of(build):
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    build(pipeline)
    environment = environments.EmbeddedPythonEnvironment()
    return translate(pipeline.to_runner_api(default_environment=environment), streaming=True)


def pairs(p, name):
    return p | f"{name}/Impulse" >> beam.Impulse() | name >> beam.Map(lambda _: ("k", 1))


def kinds(plan):
    return Counter(edge.kind for edge in plan.edges)


def sides_of(plan):
    return [side for level in plan.levels for stage in level for side in stage.side_inputs]


def test_every_level_that_reads_a_side_input_has_an_edge_for_it():
    def build(p):
        side = pairs(p, "side")
        once = pairs(p, "main") | "one" >> beam.Map(lambda e, s: e, AsIter(side))
        _ = once | "two" >> beam.Map(lambda e, s: e, AsIter(side))
        _ = once | "three" >> beam.Map(lambda e, s: e, AsIter(side))

    plan = plan_of(build)
    broadcast = [edge for edge in plan.edges if edge.kind is EdgeKind.BROADCAST]
    assert len({edge.pcollection for edge in broadcast}) == 1
    assert sorted(edge.consumer for edge in broadcast) == [1, 2]
    assert Counter(side.edge for side in sides_of(plan)).total() == 3
    assert EdgeKind.SIDE not in kinds(plan)


def test_looking_up_by_key_takes_an_edge_of_its_own():
    def build(p):
        side = pairs(p, "side")
        _ = pairs(p, "main") | beam.Map(lambda e, s, m: e, AsIter(side), AsMultiMap(side))

    plan = plan_of(build)
    assert sorted(e.multimap for e in plan.edges if e.kind is EdgeKind.BROADCAST) == [False, True]


class Stateful(beam.DoFn):
    SEEN = CombiningValueStateSpec("seen", sum)

    def process(self, element, side, seen=beam.DoFn.StateParam(SEEN)):
        yield element


@pytest.mark.parametrize(
    ("reader", "kind"),
    [
        (lambda main, side: main | beam.Map(lambda e, s: e, side), EdgeKind.FORWARD),
        (lambda main, side: main | beam.ParDo(Stateful(), side), EdgeKind.KEYED),
        (
            lambda main, side: main | beam.GroupByKey() | beam.Map(lambda e, s: e, side),
            EdgeKind.GROUP,
        ),
        (
            lambda main, side: main | beam.Reshuffle() | beam.Map(lambda e, s: e, side),
            EdgeKind.SPREAD,
        ),
    ],
)
def test_a_reader_knows_the_edge_whose_elements_wait(reader, kind):
    plan = plan_of(lambda p: reader(pairs(p, "main"), AsIter(pairs(p, "side"))))
    (side,) = sides_of(plan)
    (main,) = (edge for edge in plan.edges if edge.id == side.main)
    assert main.kind is kind


def test_readers_with_side_inputs_share_neither_edges_nor_names_of_what_they_read():
    def build(p):
        main, side = pairs(p, "main"), pairs(p, "side")
        one = main | "one" >> beam.Map(lambda e, s: e, AsIter(side))
        two = main | "two" >> beam.Map(lambda e, s: e, AsIter(side))
        _ = (one, two) | beam.Flatten()

    plan = plan_of(build)
    assert kinds(plan) == {EdgeKind.FORWARD: 2, EdgeKind.BROADCAST: 1}
    assert len({side.main for side in sides_of(plan)}) == 2
    (stage,) = plan.levels[1]
    transforms = {
        id_: beam_runner_api_pb2.PTransform.FromString(proto) for id_, proto in stage.transforms
    }
    made = [name for id_, _ in stage.sources for name in transforms[id_].outputs.values()]
    assert len(set(made)) == 2
    for side in stage.side_inputs:
        assert set(transforms[side.transform].inputs.values()) & set(made)
