"""What an SDK harness is told when it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apache_beam.portability.api import beam_provision_api_pb2, beam_runner_api_pb2
from google.protobuf import struct_pb2

from sparkdrain.fnapi.descriptor import descriptor_of
from sparkdrain.graph.beam import common_urns
from sparkdrain.graph.staged import staged_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RUNNER_CAPABILITIES: Final[tuple[str, ...]] = (
    common_urns.runner_protocols.CONTROL_RESPONSE_ELEMENTS_EMBEDDING.urn,
    common_urns.runner_protocols.MONITORING_INFO_SHORT_IDS.urn,
    common_urns.runner_protocols.MULTIMAP_KEYS_VALUES_SIDE_INPUT.urn,
)
"""What harnesses may use: elements and timers within the answer of a bundle, metrics that are
named once, and requests for all keys of a side input with their values."""

_FILE: Final[str] = common_urns.artifact_types.FILE.urn
# Python's harness keeps nothing of what it has asked for unless it is told how much it may. Each
# one of Java's would keep up to a fifth of the memory of its JVM, and slots share a JVM.
_CACHE_OPTION: Final = "max_cache_memory_usage_mb"
_CACHE_MB: Final = 100
# Java has these as well. They count unless there is a number of megabytes.
_CACHE_OF_JAVA: Final = ("max_cache_memory_usage_percent", "max_cache_memory_usage_mb_class")


def with_cache(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options of a pipeline, which say how much state a harness may keep."""
    if any(options.get(name) for name in (_CACHE_OPTION, *_CACHE_OF_JAVA)):
        return options
    return {**options, _CACHE_OPTION: _CACHE_MB}


def options_struct(options: Mapping[str, Any]) -> struct_pb2.Struct:
    """The options of a pipeline, given by plain name, as harnesses get them."""
    struct = struct_pb2.Struct()
    struct.update(
        {
            # As Beam does: numbers of this message would all be fractions.
            f"beam:option:{name}:v1": str(value) if type(value) is int else value
            for name, value in options.items()
            if value is not None
        }
    )
    return struct


def provision_info(
    worker_id: str,
    endpoint: str,
    options: Mapping[str, Any],
    dependencies: Sequence[beam_runner_api_pb2.ArtifactInformation],
) -> beam_provision_api_pb2.ProvisionInfo:
    """Everything that a harness needs to know.

    Args:
        options: the pipeline's options, by plain name.
        dependencies: the files that it may fetch.
    """
    here = descriptor_of(endpoint)
    return beam_provision_api_pb2.ProvisionInfo(
        pipeline_options=options_struct(with_cache(options)),
        logging_endpoint=here,
        artifact_endpoint=here,
        control_endpoint=here,
        status_endpoint=here,
        dependencies=dependencies,
        runner_capabilities=RUNNER_CAPABILITIES,
        metadata={"worker_id": worker_id},
    )


def fetched(dependency: beam_runner_api_pb2.ArtifactInformation) -> tuple[str, Any]:
    """The name of a staged file, and the artifact by which a harness fetches it from the slot."""
    name = staged_name(dependency)
    here = beam_runner_api_pb2.ArtifactInformation(
        type_urn=_FILE,
        type_payload=beam_runner_api_pb2.ArtifactFilePayload(path=name).SerializeToString(),
        role_urn=dependency.role_urn,
        role_payload=dependency.role_payload,
    )
    return name, here
