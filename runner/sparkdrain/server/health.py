"""gRPC's own services beside ours: health, and reflection for tools such as grpcurl."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apache_beam.portability.api import beam_artifact_api_pb2, beam_job_api_pb2

if TYPE_CHECKING:
    import grpc


def serve_health(server: grpc.Server) -> None:
    """Offer health and reflection; everything that is served is healthy."""
    # Only a server at an address needs these packages.
    from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # noqa: PLC0415
    from grpc_reflection.v1alpha import reflection  # noqa: PLC0415

    own = [
        service.full_name
        for module in (beam_job_api_pb2, beam_artifact_api_pb2)
        for service in module.DESCRIPTOR.services_by_name.values()
    ]
    health_pb2_grpc.add_HealthServicer_to_server(servicer := health.HealthServicer(), server)
    for name in ("", *own):
        servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
    names = (*own, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)
