"""gRPC's own services beside ours: health, and reflection for tools such as grpcurl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import (
    beam_artifact_api_pb2,
    beam_expansion_api_pb2,
    beam_job_api_pb2,
)

if TYPE_CHECKING:
    import grpc

_ARTIFACT_SERVICES: Final = beam_artifact_api_pb2.DESCRIPTOR.services_by_name

JOBS: Final[str] = beam_job_api_pb2.DESCRIPTOR.services_by_name["JobService"].full_name
ARTIFACTS: Final[tuple[str, ...]] = (
    _ARTIFACT_SERVICES["ArtifactStagingService"].full_name,
    _ARTIFACT_SERVICES["ArtifactRetrievalService"].full_name,
)
EXPANSION: Final[str] = beam_expansion_api_pb2.DESCRIPTOR.services_by_name[
    "ExpansionService"
].full_name


def serve_health(server: grpc.Server, *served: str) -> None:
    """Offer health and reflection; everything that is served is healthy.

    Args:
        server: a server.
        served: the names of its services.
    """
    # Only a server at an address needs these packages.
    from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # noqa: PLC0415
    from grpc_reflection.v1alpha import reflection  # noqa: PLC0415

    health_pb2_grpc.add_HealthServicer_to_server(servicer := health.HealthServicer(), server)
    for name in ("", *served):
        servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
    names = (*served, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)
