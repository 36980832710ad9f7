"""From a Beam pipeline to the leaf transforms that are to be carried out."""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING, Any

from sparkdrain.graph import urns
from sparkdrain.graph.beam import KNOWN_COMPOSITES, TransformContext, leaf_transform_stages
from sparkdrain.graph.passes import IN_BATCH, PASSES
from sparkdrain.graph.plan import TransformId
from sparkdrain.graph.transform import Transform, describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from apache_beam.portability.api import beam_runner_api_pb2


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
    context = TransformContext(pipeline.components, known_runner_urns=urns.RUNNER)
    stages = leaf_transform_stages(
        pipeline.root_transform_ids,
        pipeline.components,
        known_composites=KNOWN_COMPOSITES | urns.RUNNER,
    )
    return context, list(stages)


def _unique_ids(names: Iterable[str]) -> Iterator[TransformId]:
    seen: set[str] = set()
    for name in names:
        id_ = next(
            candidate
            for candidate in itertools.chain([name], (f"{name}#{n}" for n in itertools.count(2)))
            if candidate not in seen
        )
        seen.add(id_)
        yield TransformId(id_)
