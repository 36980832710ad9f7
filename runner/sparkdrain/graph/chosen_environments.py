"""Says in words where the transforms of each environment run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkdrain.graph.environments import IN_PROCESS, chosen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apache_beam.portability.api import beam_runner_api_pb2


def chosen_environments(pipeline: beam_runner_api_pb2.Pipeline) -> Iterator[str]:
    """A sentence for each environment in use, but for those that plainly are the slots' own."""
    components = pipeline.components
    used = {transform.environment_id for transform in components.transforms.values()}
    for id_, asked in sorted(components.environments.items()):
        environment = chosen(asked)
        if id_ in used and environment is not None and asked.urn not in IN_PROCESS:
            where = "the slots' own processes" if environment.urn in IN_PROCESS else environment.urn
            yield f"Transforms of the environment {id_!r} ({asked.urn}) run in {where}."
