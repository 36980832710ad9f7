"""``sparkdrain worker``: Beam's Python SDK harness, started as Beam's containers start it.

Bundles run as compiled stages, see ``ChannelProcessor``, if ``--compiled_stages`` does not say no.

The command of a PROCESS environment. The slot adds the arguments: who the harness is, and where
it finds the rest.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import shutil
import sys
import tempfile
import threading
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import grpc
from apache_beam.portability import common_urns
from apache_beam.portability.api import (
    beam_artifact_api_pb2,
    beam_artifact_api_pb2_grpc,
    beam_provision_api_pb2,
    beam_provision_api_pb2_grpc,
    beam_runner_api_pb2,
)
from apache_beam.runners.internal.names import PICKLED_MAIN_SESSION_FILE
from google.protobuf import json_format, text_format

from sparkdrain.cached_sizes import weigh_quickly
from sparkdrain.garbage import calm_collector
from sparkdrain.stages.workers.packages import PIP_ROLE_PREFIX, use_packages

if TYPE_CHECKING:
    import argparse

_UNLIMITED: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)
_COMPILED: Final = "beam:option:compiled_stages:v1"
_SHORT_IDS: Final[str] = common_urns.runner_protocols.MONITORING_INFO_SHORT_IDS.urn
_PIP_ROLE: Final[str] = common_urns.artifact_roles.PIP_REQUIREMENTS_FILE.urn
_NOT_PACKAGES: Final = frozenset(
    {PICKLED_MAIN_SESSION_FILE, "submission_environment_dependencies.txt"}
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What Beam's containers are started with."""
    parser.add_argument("--id", required=True, help="the worker id")
    parser.add_argument("--provision_endpoint", required=True, help="where the rest is asked for")
    for name in ("control", "logging", "artifact"):
        parser.add_argument(f"--{name}_endpoint", help="told by the provision endpoint, too")


def worker(arguments: argparse.Namespace) -> int:
    """Run a harness until the slot lets go of it."""
    ended = threading.Event()
    # First, so that it runs last: what user code has registered runs before.
    atexit.register(_leave, ended)
    folder = tempfile.mkdtemp(prefix="sparkdrain-worker-")
    try:
        environment = _environment(arguments, Path(folder))
        os.environ.update(environment)
        # Options that only the main program declares are unknown here: nothing to warn of. And
        # programs without a main session are as they should be.
        for name in ("options.pipeline_options", "runners.worker.sdk_worker_main"):
            logging.getLogger(f"apache_beam.{name}").setLevel(logging.ERROR)
        from apache_beam.runners.worker import sdk_worker_main  # noqa: PLC0415 - reads these

        from sparkdrain.harness.channel.answers import (  # noqa: PLC0415 - imports Beam's worker
            name_metrics_once,
        )
        from sparkdrain.harness.channel.processor import (  # noqa: PLC0415 - likewise
            compile_bundles,
        )

        weigh_quickly()
        if json.loads(environment.get("PIPELINE_OPTIONS", "{}")).get(_COMPILED) != "off":
            compile_bundles()
        if _SHORT_IDS in environment.get("RUNNER_CAPABILITIES", "").split():
            name_metrics_once()
        calm_collector()
        sdk_worker_main.main([])
        ended.set()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _leave(ended: threading.Event) -> None:
    """End now, if all went well: Python takes a third of a second to take its modules apart."""
    if ended.is_set():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _environment(arguments: argparse.Namespace, folder: Path) -> dict[str, str]:
    """What Beam's harness reads: environment variables, and files in a folder."""
    who = (("worker_id", arguments.id),)
    with grpc.insecure_channel(arguments.provision_endpoint, options=_UNLIMITED) as channel:
        provision = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
        request = beam_provision_api_pb2.GetProvisionInfoRequest()
        info = provision.GetProvisionInfo(request, metadata=who).info
        endpoint = info.artifact_endpoint.url or arguments.artifact_endpoint
    if info.dependencies:
        with grpc.insecure_channel(endpoint, options=_UNLIMITED) as channel:
            stub = beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceStub(channel)
            names = [_fetch(stub, each, folder / "staged", who) for each in info.dependencies]
        _install([name for name in names if name not in _NOT_PACKAGES], folder)
    return {
        "WORKER_ID": arguments.id,
        "SEMI_PERSISTENT_DIRECTORY": str(folder),
        "PIPELINE_OPTIONS": json_format.MessageToJson(info.pipeline_options),
        "RUNNER_CAPABILITIES": " ".join(info.runner_capabilities),
        "LOGGING_API_SERVICE_DESCRIPTOR": text_format.MessageToString(info.logging_endpoint),
        "CONTROL_API_SERVICE_DESCRIPTOR": text_format.MessageToString(info.control_endpoint),
        "STATUS_API_SERVICE_DESCRIPTOR": text_format.MessageToString(info.status_endpoint),
    }


def _fetch(
    stub: beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceStub,
    artifact: beam_runner_api_pb2.ArtifactInformation,
    folder: Path,
    who: tuple[tuple[str, str], ...],
) -> str:
    """Get a staged file; its name."""
    folder.mkdir(exist_ok=True)
    role = beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(artifact.role_payload)
    name = Path(role.staged_name).name
    if artifact.role_urn == _PIP_ROLE:
        name = PIP_ROLE_PREFIX + name
    request = beam_artifact_api_pb2.GetArtifactRequest(artifact=artifact)
    with (folder / name).open("wb") as file:
        for part in stub.GetArtifact(request, metadata=who):
            file.write(part.data)
    return name


def _install(names: list[str], folder: Path) -> None:
    """Install packages that were staged."""
    if not names:
        return
    archive = folder / "packages.zip"
    with zipfile.ZipFile(archive, "w") as files:
        for name in names:
            files.write(folder / "staged" / name, name)
    use_packages(archive, folder)
