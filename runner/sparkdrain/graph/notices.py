"""What users are told of a pipeline: choices, warnings, and words for an error to come. Pure."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from apache_beam.io.filesystems import FileSystems
from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.graph.beam import common_urns
from sparkdrain.graph.environments import EXTERNAL, IN_PROCESS, chosen
from sparkdrain.peers import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHOWN_STEPS: Final = 3
_HINTS: Final = common_urns.resource_hints
# By URN: the hint's name in Beam, and the properties of Spark that say the same for all steps.
_KNOWN: Final = {
    _HINTS.MIN_RAM_BYTES.urn: ("min_ram", "spark.executor.memory and spark.executor.cores"),
    _HINTS.CPU_COUNT.urn: ("cpu_count", "spark.task.cpus"),
    _HINTS.ACCELERATOR.urn: (
        "accelerator",
        "spark.executor.resource.gpu.amount and spark.task.resource.gpu.amount",
    ),
    _HINTS.MAX_ACTIVE_BUNDLES_PER_WORKER.urn: (
        "max_active_bundles_per_worker",
        "spark.executor.cores",
    ),
}
_FILE_PATTERN: Final = "file_pattern"
"""Under this key Beam's file sources and sinks display where they read and write."""
_LABELLED: Final[str] = common_urns.displayData.LABELLED.urn


def chosen_environments(pipeline: beam_runner_api_pb2.Pipeline) -> Iterator[str]:
    """A sentence for each environment in use, but for those that plainly are the slots' own."""
    for id_, asked, environment in _in_use(pipeline):
        if asked.urn not in IN_PROCESS:
            where = "the slots' own processes" if environment.urn in IN_PROCESS else environment.urn
            yield f"Transforms of the environment {id_!r} ({asked.urn}) run in {where}."


def open_pools(pipeline: beam_runner_api_pb2.Pipeline) -> Iterator[str]:
    """A warning for each pool in use that is reached over a network, where nothing is encrypted."""
    for id_, _, environment in _in_use(pipeline):
        if environment.urn != EXTERNAL:
            continue
        payload = beam_runner_api_pb2.ExternalPayload.FromString(environment.payload)
        address = payload.endpoint.url
        host = address.rpartition(":")[0].strip("[]")
        if not address.startswith("unix:") and not is_loopback(host):
            yield (
                f"The worker pool of the environment {id_!r} is at {address!r}, across a network. "
                "Beam's pools speak in clear, and do not ask who calls: an attacker on that "
                "network can read and change elements, state and the pipeline's options with their "
                "passwords, and can run code as the pool's user. Have a pool on the machine of "
                "each executor (--environment_config=localhost:PORT), let executors start "
                "processes instead (--environment_type=PROCESS), or see that no other user is "
                "on that network."
            )


def _in_use(
    pipeline: beam_runner_api_pb2.Pipeline,
) -> Iterator[tuple[str, beam_runner_api_pb2.Environment, beam_runner_api_pb2.Environment]]:
    """The environments in use: the id, what is asked for, and what is chosen."""
    components = pipeline.components
    used = {transform.environment_id for transform in components.transforms.values()}
    for id_, asked in sorted(components.environments.items()):
        environment = chosen(asked)
        if id_ in used and environment is not None:
            yield id_, asked, environment


def unkept_hints(pipeline: beam_runner_api_pb2.Pipeline) -> list[str]:
    """A warning for each resource hint and value, with its steps and what to do instead.

    Spark's executors cannot keep hints step by step.
    """
    steps: dict[tuple[str, bytes], list[str]] = defaultdict(list)
    for transform in pipeline.components.transforms.values():
        if transform.subtransforms or not transform.environment_id:
            continue
        environment = pipeline.components.environments[transform.environment_id]
        for urn, value in environment.resource_hints.items():
            steps[urn, value].append(transform.unique_name)
    return [_warning(urn, value, sorted(names)) for (urn, value), names in sorted(steps.items())]


def _warning(urn: str, value: bytes, steps: list[str]) -> str:
    name, properties = _KNOWN.get(urn, (urn, "properties of Spark"))
    more = len(steps) - _SHOWN_STEPS
    shown = ", ".join(map(repr, steps[:_SHOWN_STEPS])) + (f" and {more} more" if more > 0 else "")
    return (
        f"The resource hint {name}={value.decode(errors='replace')} of {shown} has no effect: all "
        "steps run in the same executors, and no step is placed by its needs. Size the executors "
        f"for the neediest step, with {properties} (--spark_conf, or where the session is made)."
    )


def relative_paths(pipeline: beam_runner_api_pb2.Pipeline) -> dict[str, str]:
    """Step by relative path, for each file source and sink that displays one.

    Patterns that are elements (``ReadAllFromText``) are known to the workers only.
    """
    found: dict[str, str] = {}
    for transform in pipeline.components.transforms.values():
        for data in transform.display_data:
            if data.urn != _LABELLED:
                continue
            shown = beam_runner_api_pb2.LabelledPayload.FromString(data.payload)
            path = shown.string_value if shown.key == _FILE_PATTERN else ""
            if path and FileSystems.get_scheme(path) is None and not os.path.isabs(path):
                steps = (transform.unique_name, found.get(path, transform.unique_name))
                found[path] = min(steps, key=len)
    return found
