"""Resource hints of a pipeline, which Spark's executors cannot keep step by step. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from sparkdrain.graph.beam import common_urns

if TYPE_CHECKING:
    from apache_beam.portability.api import beam_runner_api_pb2

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


def unkept_hints(pipeline: beam_runner_api_pb2.Pipeline) -> list[str]:
    """A warning for each resource hint and value, with its steps and what to do instead."""
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
