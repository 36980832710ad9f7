"""Starts one SDK worker as Beam's container contract asks, without a container.

Job servers and worker pools call it with the worker's id and the runner's endpoints. Nothing is
staged: the benchmark's modules are on PYTHONPATH. It becomes Python's worker, or a command that is
given as JSON: `{id}`, `{logging}` and `{control}` in it are the worker's id and endpoints.
"""

from __future__ import annotations

import argparse
import json
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
    for name in ("id", "provision_endpoint"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("logging_endpoint", "control_endpoint"):
        parser.add_argument(f"--{name}", default="")
    # Some runners tell the provision service alone where the others are.
    parser.add_argument("--command", type=json.loads)
    asked, _ = parser.parse_known_args()
    service = beam_provision_api_pb2_grpc.ProvisionServiceStub(
        grpc.insecure_channel(asked.provision_endpoint)
    )
    info = service.GetProvisionInfo(
        beam_provision_api_pb2.GetProvisionInfoRequest(),
        metadata=[("worker_id", asked.id)],
        timeout=60,
    ).info
    logging = info.logging_endpoint.url or asked.logging_endpoint
    control = info.control_endpoint.url or asked.control_endpoint
    os.environ.update(
        WORKER_ID=asked.id,
        HARNESS_ID=asked.id,
        PIPELINE_OPTIONS=json_format.MessageToJson(info.pipeline_options),
        LOGGING_API_SERVICE_DESCRIPTOR=_descriptor(logging),
        CONTROL_API_SERVICE_DESCRIPTOR=_descriptor(control),
        RUNNER_CAPABILITIES=" ".join(info.runner_capabilities),
        SEMI_PERSISTENT_DIRECTORY=tempfile.gettempdir(),
    )
    command = asked.command or [sys.executable, "-m", WORKER]
    known = {"{id}": asked.id, "{logging}": logging, "{control}": control}
    os.execvp(command[0], [known.get(part, part) for part in command])


def _descriptor(url: str) -> str:
    return text_format.MessageToString(endpoints_pb2.ApiServiceDescriptor(url=url))


if __name__ == "__main__":
    main()
