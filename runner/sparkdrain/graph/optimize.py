"""From a Beam pipeline to the leaf transforms that are to be carried out.

Passes rewrite the pipeline. A pass takes the stages (one leaf transform each) and Beam's transform
context, and yields the stages that take their place.
"""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING, Any, Final

from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.graph import beam, urns
from sparkdrain.graph.beam import Stage, common_urns
from sparkdrain.graph.exchanges import (
    drop_side_inputs_of_exchanges,
    skip_exchanges,
    skip_exchanges_before_groups,
)
from sparkdrain.graph.plan import TransformId
from sparkdrain.graph.transform import Transform, describe
from sparkdrain.graph.window_fns import strategy_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Pass = Callable[[Iterable[Any], Any], Iterable[Any]]

STREAM = "sparkdrain:test_stream"
"""Annotation: which TestStream an output belongs to. Two may have the same script."""
_COMBINE: Final = common_urns.composites.COMBINE_PER_KEY.urn
_EARLIEST: Final = beam_runner_api_pb2.OutputTime.EARLIEST_IN_PANE
_UNBOUNDED: Final = beam_runner_api_pb2.IsBounded.UNBOUNDED
# Beam lifts a combine unless its trigger must see every element.
_SEES_ALL: Final = beam_runner_api_pb2.Trigger(
    element_count=beam_runner_api_pb2.Trigger.ElementCount(element_count=2)
)


def optimize(
    pipeline: beam_runner_api_pb2.Pipeline, *, streaming: bool
) -> tuple[beam_runner_api_pb2.Components, list[Transform]]:
    """Run the passes; the leaves that are left, and the components they refer to."""
    context, stages = leaves_of(copy.deepcopy(pipeline))
    for rewrite in PASSES:
        if not (streaming and rewrite in IN_BATCH):
            stages = list(rewrite(stages, context))
    leaves = [transform for stage in stages for transform in stage.transforms]
    ids = _unique_ids(leaf.unique_name for leaf in leaves)
    return context.components, [describe(id_, leaf) for id_, leaf in zip(ids, leaves, strict=True)]


def leaves_of(pipeline: beam_runner_api_pb2.Pipeline) -> tuple[Any, list[Any]]:
    """What passes work on: Beam's context, and a stage for each transform that is a leaf here."""
    # Fusion and the passes ask whether two transforms share an environment by its id.
    context = beam.TransformContext(pipeline.components, known_runner_urns=urns.RUNNER)
    stages = beam.leaf_transform_stages(
        pipeline.root_transform_ids,
        pipeline.components,
        known_composites=beam.KNOWN_COMPOSITES | urns.RUNNER,
    )
    return context, list(stages)


def _unique_ids(names: Iterable[str]) -> Iterator[TransformId]:
    seen: set[str] = set()
    for name in names:
        candidates = itertools.chain([name], (f"{name}#{n}" for n in itertools.count(2)))
        id_ = next(candidate for candidate in candidates if candidate not in seen)
        seen.add(id_)
        yield TransformId(id_)


def read_from_impulse(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Yield every stage, a Read (``beam:transform:read:v1``) replaced by two."""
    pcollections = context.components.pcollections
    for stage in stages:
        transform = stage.transforms[0]
        if transform.spec.urn != urns.READ:
            yield stage
            continue
        (output,) = transform.outputs.values()
        impulse = f"{transform.unique_name}/Impulse.out"
        pcollections[impulse].CopyFrom(pcollections[output])
        pcollections[impulse].unique_name = impulse
        pcollections[impulse].coder_id = context.bytes_coder_id
        name, environment = transform.unique_name, transform.environment_id
        first = _made(f"{name}/Impulse", urns.IMPULSE, environment, outputs={"out": impulse})
        yield Stage(first.unique_name, [first], parent=stage.parent)
        read = _made(name, urns.IMPULSE_READ, environment, inputs={"in": impulse})
        read.spec.payload = transform.spec.payload
        read.outputs.MergeFrom(transform.outputs)
        yield Stage(stage.name, [read], parent=stage.parent)


def separate_test_streams(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Yield all stages; of a TestStream, one for each output, all with the whole script."""
    for stage in stages:
        transform = stage.transforms[0]
        if transform.spec.urn != urns.TEST_STREAM:
            yield stage
            continue
        for tag, pcollection in sorted(transform.outputs.items()):
            part = beam_runner_api_pb2.PTransform()
            part.CopyFrom(transform)
            if len(transform.outputs) > 1:
                part.unique_name = f"{transform.unique_name}/{tag}"
            part.outputs.clear()
            part.outputs[tag] = pcollection
            part.annotations[STREAM] = transform.unique_name.encode()
            yield Stage(part.unique_name, [part], parent=stage.parent)


def lift_combiners(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Yield all stages, combines as the stages that they are made of.

    Beam's pass of this name, but for panes at the time of their earliest element: elements that are
    late do not count for that time, so in a stream they must not be put together with others before
    it is known which are.
    """
    for stage in stages:
        windowing = _windowing(stage, context)
        if windowing is None:
            yield from beam.lift_combiners([stage], context)
            continue
        trigger = beam_runner_api_pb2.Trigger.FromString(windowing.trigger.SerializeToString())
        windowing.trigger.CopyFrom(_SEES_ALL)
        made = list(beam.lift_combiners([stage], context))
        windowing.trigger.CopyFrom(trigger)
        yield from made


def _windowing(stage: Any, context: Any) -> Any:
    """The windowing of a combine that is to see each element with its own time; None of others."""
    transform = stage.transforms[0]
    if transform.spec.urn != _COMBINE:
        return None
    (name,) = transform.inputs.values()
    windowing = strategy_of(context.components, name)
    is_bounded = context.components.pcollections[name].is_bounded
    apart = is_bounded == _UNBOUNDED and windowing.output_time == _EARLIEST
    return windowing if apart else None


def separate_barriers(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Yield all stages; whatever only a stage can write is then produced by one.

    The output of a GroupByKey or exchange is read by a stage. Where it goes straight into
    another barrier (a GroupByKey, an exchange, a stateful DoFn, a side input), an identity
    (``beam:dofn:identity:0.1``) becomes that stage.
    """
    stages = list(stages)
    from_runner = {
        output
        for stage in stages
        for transform in stage.transforms
        if transform.spec.urn in urns.RUNNER
        for output in transform.outputs.values()
    }
    copies: dict[str, str] = {}
    for stage in stages:
        transform = stage.transforms[0]
        for tag in _barrier_tags(transform):
            pcollection = transform.inputs[tag]
            if pcollection not in from_runner:
                continue
            if pcollection not in copies:
                copies[pcollection] = f"{pcollection}/Identity.out"
                yield _identity(pcollection, copies[pcollection], stage, context)
            transform.inputs[tag] = copies[pcollection]
        yield stage


def _barrier_tags(transform: beam_runner_api_pb2.PTransform) -> list[str]:
    if transform.spec.urn in urns.RUNNER:
        return sorted(transform.inputs)
    described = describe(TransformId(""), transform)
    whole = described.keyed or described.requires_stable_input
    return [tag for tag in sorted(transform.inputs) if whole or tag in described.side_tags]


def _identity(source: str, copy: str, consumer: Any, context: Any) -> Any:
    pcollections = context.components.pcollections
    pcollections[copy].CopyFrom(pcollections[source])
    pcollections[copy].unique_name = copy
    transform = _made(
        f"{source}/Identity",
        urns.IDENTITY,
        consumer.transforms[0].environment_id,
        inputs={"in": source},
        outputs={"out": copy},
    )
    return Stage(transform.unique_name, [transform], parent=consumer.parent)


def _made(
    name: str, urn: str, environment: str, **ports: Mapping[str, str]
) -> beam_runner_api_pb2.PTransform:
    spec = beam_runner_api_pb2.FunctionSpec(urn=urn)
    return beam_runner_api_pb2.PTransform(
        unique_name=name, spec=spec, environment_id=environment, **ports
    )


PASSES: Final[tuple[Pass, ...]] = (
    read_from_impulse,
    separate_test_streams,
    beam.pack_combiners,
    lift_combiners,
    beam.expand_sdf,
    drop_side_inputs_of_exchanges,
    skip_exchanges,
    skip_exchanges_before_groups,
    separate_barriers,
)
"""The rewrites of the pipeline, in the order in which they run."""
IN_BATCH: Final = frozenset({skip_exchanges_before_groups})
"""Passes that streaming jobs do without: a checkpoint belongs to the edges of a plan."""
