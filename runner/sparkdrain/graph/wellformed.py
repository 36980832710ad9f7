"""Refuses what is no pipeline: a reference to something that is missing, or a circle."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from sparkdrain.errors import Malformed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from apache_beam.portability.api import beam_runner_api_pb2


def check_wellformed(pipeline: beam_runner_api_pb2.Pipeline) -> None:
    """Return if everything that a part of the pipeline names is there.

    Clients of any SDK, and clients without one, make pipelines. All later code relies on this.

    Raises:
        Malformed: names the transform and what it lacks.
    """
    parts = pipeline.components
    _known("The pipeline", "root transform", pipeline.root_transform_ids, parts.transforms)
    for key, transform in parts.transforms.items():
        owner = f"The transform {(transform.unique_name or key)!r}"
        pcollections = (*transform.inputs.values(), *transform.outputs.values())
        _known(owner, "PCollection", pcollections, parts.pcollections)
        _known(owner, "subtransform", transform.subtransforms, parts.transforms)
        _known(owner, "environment", filter(None, [transform.environment_id]), parts.environments)
    producers = {
        pcollection: f"The PCollection {pcollection!r} of the transform {transform.unique_name!r}"
        for transform in parts.transforms.values()
        for pcollection in transform.outputs.values()
    }
    for key, pcollection in parts.pcollections.items():
        owner = producers.get(key, f"The PCollection {key!r}")
        _known(owner, "coder", [pcollection.coder_id], parts.coders)
        strategies = [pcollection.windowing_strategy_id]
        _known(owner, "windowing strategy", strategies, parts.windowing_strategies)
    for key, coder in parts.coders.items():
        _known(f"The coder {key!r}", "component coder", coder.component_coder_ids, parts.coders)
    _check_no_circle(parts.transforms)


def _known(owner: str, kind: str, wanted: Iterable[str], there: Mapping[str, object]) -> None:
    for key in wanted:
        if key not in there:
            message = f"{owner} refers to the {kind} {key!r}, which the pipeline does not have."
            raise Malformed(message)


def _check_no_circle(transforms: Mapping[str, beam_runner_api_pb2.PTransform]) -> None:
    """Return if no transform contains itself."""
    parts = {key: transform.subtransforms for key, transform in transforms.items()}
    try:
        TopologicalSorter(parts).prepare()
    except CycleError as error:
        _, (key, *_) = error.args
        message = f"The transform {transforms[key].unique_name!r} contains itself."
        raise Malformed(message) from None
