"""Starts one Python SDK worker as Beam's container contract asks, without a container.

The worker pool calls it with the worker's id and the runner's endpoints. Nothing is staged: the
benchmark's modules are on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

import grpc
from apache_beam.portability.api import (
    beam_provision_api_pb2,
    beam_provision_api_pb2_grpc,
    endpoints_pb2,
)
from google.protobuf import json_format, text_format

WORKER = "apache_beam.runners.worker.sdk_worker_main"


def main() -> None:
    """Asks the provision service what to run as, then becomes the worker."""
    parser = argparse.ArgumentParser()
    for name in ("id", "logging_endpoint", "provision_endpoint", "control_endpoint"):
        parser.add_argument(f"--{name}", required=True)
    asked, _ = parser.parse_known_args()
    service = beam_provision_api_pb2_grpc.ProvisionServiceStub(
        grpc.insecure_channel(asked.provision_endpoint)
    )
    info = service.GetProvisionInfo(
        beam_provision_api_pb2.GetProvisionInfoRequest(),
        metadata=[("worker_id", asked.id)],
        timeout=60,
    ).info
    os.environ.update(
        WORKER_ID=asked.id,
        PIPELINE_OPTIONS=json_format.MessageToJson(info.pipeline_options),
        LOGGING_API_SERVICE_DESCRIPTOR=_descriptor(
            info.logging_endpoint.url or asked.logging_endpoint
        ),
        CONTROL_API_SERVICE_DESCRIPTOR=_descriptor(
            info.control_endpoint.url or asked.control_endpoint
        ),
        RUNNER_CAPABILITIES=" ".join(info.runner_capabilities),
        SEMI_PERSISTENT_DIRECTORY=tempfile.gettempdir(),
    )
    os.execv(sys.executable, [sys.executable, "-m", WORKER])


def _descriptor(url: str) -> str:
    return text_format.MessageToString(endpoints_pb2.ApiServiceDescriptor(url=url))


if __name__ == "__main__":
    main()
