"""Takes the files that a pipeline needs from the client and puts them on a local disk.

The one module that touches Beam's artifact service.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_artifact_api_pb2_grpc, beam_runner_api_pb2
from apache_beam.runners.portability import artifact_service
from apache_beam.transforms import environments

from sparkdrain.errors import BadSetup
from sparkdrain.types import Artifact

if TYPE_CHECKING:
    from collections.abc import Iterable

    import grpc

# The client has sent everything when it calls Run; only the last file's closing may be under way.
_STAGING_SECONDS: Final = 10.0

# Bytes of a file that are summed up at a time.
_CHUNK: Final = 1 << 20

_FILE: Final = common_urns.artifact_types.FILE.urn
_STAGING_TO: Final = common_urns.artifact_roles.STAGING_TO.urn


class Artifacts:
    """The staged files of all jobs, in one directory each below ``root``."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._service = artifact_service.ArtifactStagingService(
            artifact_service.BeamFilesystemHandler(str(root)).file_writer
        )

    def serve(self, server: grpc.Server) -> None:
        """Offer Beam's staging service on ``server``."""
        add = beam_artifact_api_pb2_grpc.add_ArtifactStagingServiceServicer_to_server
        add(self._service, server)

    def expect(self, token: str, pipeline: beam_runner_api_pb2.Pipeline) -> None:
        """Let a client stage what the pipeline's environments depend on, under ``token``."""
        dependencies = {
            (env_id, number): list(environment.dependencies)
            for env_id, outer in pipeline.components.environments.items()
            for number, environment in enumerate(environments.expand_anyof_environments(outer))
        }
        self._service.register_job(token, dependencies)

    def collect(self, token: str, pipeline: beam_runner_api_pb2.Pipeline) -> tuple[Artifact, ...]:
        """The staged files, each under its own name; may be called once per token.

        A file that several environments share comes once.

        Raises:
            BadSetup: the client staged nothing or not everything, or two different files have the
                same name.
        """
        wanted = [
            dependency
            for environment in pipeline.components.environments.values()
            for dependency in environment.dependencies
        ]
        try:
            timeout = _STAGING_SECONDS if wanted else 0
            staged = self._service.resolved_deps(token, timeout=timeout)
        except concurrent.futures.TimeoutError as error:
            if not wanted:
                return ()
            message = (
                f"{len(wanted)} files that the pipeline depends on were not staged before Run. "
                "The client must offer them to the artifact staging endpoint first."
            )
            raise BadSetup(message) from error
        return self._placed(token, [entry for entries in staged.values() for entry in entries])

    def forget(self, token: str) -> None:
        """Remove the files, and the expectation of files, of a job."""
        # Collected before, or never staged: either way Beam's service has forgotten it afterwards.
        with contextlib.suppress(KeyError, concurrent.futures.TimeoutError):
            self._service.resolved_deps(token, timeout=0)
        shutil.rmtree(self._root / token, ignore_errors=True)

    def _placed(
        self, token: str, staged: Iterable[beam_runner_api_pb2.ArtifactInformation]
    ) -> tuple[Artifact, ...]:
        home = self._root / token
        placed: dict[str, str] = {}
        artifacts = []
        # Beam names a staged file by its content and role, so what environments share is one file.
        for source, entry in {_path(entry): entry for entry in staged}.items():
            if entry.type_urn != _FILE or home not in source.parents:
                message = f"{source.name!r} was offered for staging but did not arrive."
                raise BadSetup(message)
            name = _name(entry, source)
            digest = _digest(source)
            if placed.setdefault(name, digest) != digest:
                message = (
                    f"Two environments of the pipeline stage different files as {name!r}. "
                    "Give one of them another name."
                )
                raise BadSetup(message)
            target = home / "files" / name
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                source.rename(target)
                artifacts.append(Artifact(name, target, entry.role_urn, entry.type_urn))
        return tuple(artifacts)


def _path(entry: beam_runner_api_pb2.ArtifactInformation) -> Path:
    payload = beam_runner_api_pb2.ArtifactFilePayload.FromString(entry.type_payload)
    return Path(payload.path)


def _name(entry: beam_runner_api_pb2.ArtifactInformation, source: Path) -> str:
    if entry.role_urn != _STAGING_TO:
        return source.name
    payload = beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(entry.role_payload)
    # Names come from the client: never let one lead out of the job's directory.
    return Path(payload.staged_name).name or source.name


def _digest(path: Path) -> str:
    summed = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            summed.update(chunk)
    return summed.hexdigest()
