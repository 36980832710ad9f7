"""Names of the files that a pipeline brings along."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.graph.beam import common_urns

if TYPE_CHECKING:
    from collections.abc import Mapping

_File: TypeAlias = beam_runner_api_pb2.ArtifactFilePayload
_Url: TypeAlias = beam_runner_api_pb2.ArtifactUrlPayload
STAGING_TO: Final[str] = common_urns.artifact_roles.STAGING_TO.urn
ARTIFACTS: Final[Mapping[str, type[_File | _Url]]] = {
    common_urns.artifact_types.FILE.urn: _File,
    common_urns.artifact_types.URL.urn: _Url,
}
"""What a client tells of a file, by the URN of its type."""
_GO_WORKER: Final[str] = common_urns.artifact_roles.GO_WORKER_BINARY.urn
GO_WORKER: Final = "go-worker"
"""The name here of Go's worker binary; Go gives it none."""


def staged_name(file: beam_runner_api_pb2.ArtifactInformation) -> str:
    """The name that a file is to have for user code; empty if it needs none."""
    if file.role_urn == _GO_WORKER:
        return GO_WORKER
    if file.role_urn != STAGING_TO:
        return ""
    payload = beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(file.role_payload)
    # Names come from the client: never let one lead out of the job's directory.
    return Path(payload.staged_name).name


def told_sha256(file: beam_runner_api_pb2.ArtifactInformation) -> str:
    """The hash that a file is said to have; empty if none is told. A staged file has it."""
    kind = ARTIFACTS.get(file.type_urn)
    return "" if kind is None else kind.FromString(file.type_payload).sha256.lower()
