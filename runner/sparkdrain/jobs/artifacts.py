"""The files that clients stage for jobs, each job's on a local disk under their own names."""

from __future__ import annotations

import shutil
import threading
from typing import TYPE_CHECKING, Final, Protocol

from apache_beam.portability.api import beam_artifact_api_pb2_grpc
from apache_beam.transforms import environments
from typing_extensions import override

from sparkdrain.errors import BadSetup
from sparkdrain.jobs.kept_files import KeptFiles
from sparkdrain.jobs.staging import (
    SILENT_SECONDS,
    Retrieval,
    ReverseRetrieval,
    Staged,
    Staging,
    file_path,
)
from sparkdrain.types import Artifact

if TYPE_CHECKING:
    from pathlib import Path

    import grpc
    from apache_beam.portability.api import beam_runner_api_pb2

# The client has sent everything when it calls Run; only the last file's closing may be under way.
_STAGING_SECONDS: Final = 10.0
# No job has an id like this.
_KEPT: Final = ".kept"


class StagedFiles(Protocol):
    """The files that jobs are given beside their pipelines."""

    def expect(self, token: str, pipeline: beam_runner_api_pb2.Pipeline) -> None:
        """Let a client stage what the pipeline's environments depend on, under ``token``."""

    def collect(self, token: str) -> tuple[Artifact, ...]:
        """The staged files, each under its own name; may be called once per token.

        A file that several environments share comes once.

        Raises:
            BadSetup: the client staged nothing or not everything, or two different files have the
                same name.
        """

    def forget(self, token: str) -> None:
        """Remove the files, and the expectation of files, of a job."""


class Artifacts(StagedFiles):
    """Files that clients stage by reverse retrieval, in one directory per job below ``root``.

    Args:
        root: the folder for all jobs.
        silent_seconds: how long a client that stages files may send nothing.
    """

    def __init__(self, root: Path, silent_seconds: float = SILENT_SECONDS) -> None:
        self._root = root
        self._silent_seconds = silent_seconds
        self._kept = KeptFiles(root / _KEPT)
        self._lock = threading.Lock()
        self._stagings: dict[str, Staging] = {}

    def serve(self, server: grpc.Server) -> None:
        """Offer the services for staging and retrieval on ``server``."""
        add = beam_artifact_api_pb2_grpc.add_ArtifactStagingServiceServicer_to_server
        add(ReverseRetrieval(self._stagings.get, self._silent_seconds), server)
        add = beam_artifact_api_pb2_grpc.add_ArtifactRetrievalServiceServicer_to_server
        add(Retrieval(self._find), server)

    def close(self) -> None:
        """Drop what is kept for jobs to come."""
        self._kept.close()

    @override
    def expect(self, token: str, pipeline: beam_runner_api_pb2.Pipeline) -> None:
        wanted = [
            list(environment.dependencies)
            for outer in pipeline.components.environments.values()
            for environment in environments.expand_anyof_environments(outer)
            if environment.dependencies
        ]
        with self._lock:
            self._stagings[token] = Staging(self._root / token, wanted, self._kept)

    @override
    def collect(self, token: str) -> tuple[Artifact, ...]:
        staging = self._stagings[token]
        if not staging.wanted:
            return ()
        if not staging.over.wait(_STAGING_SECONDS):
            count = sum(map(len, staging.wanted))
            message = (
                f"{count} files that the pipeline depends on were not staged before Run. "
                "The client must offer them to the artifact staging endpoint first."
            )
            raise BadSetup(message)
        with staging.lock:
            if staging.problem:
                raise BadSetup(staging.problem)
            return _placed(staging)

    @override
    def forget(self, token: str) -> None:
        with self._lock:
            self._stagings.pop(token, None)
        shutil.rmtree(self._root / token, ignore_errors=True)

    def _find(self, offered: beam_runner_api_pb2.ArtifactInformation) -> Staged | None:
        with self._lock:
            stagings = list(self._stagings.values())
        files = (staged for staging in stagings for staged in staging.staged)
        path = file_path(offered)
        return next((f for f in files if f.offered == offered or str(f.path) == path), None)


def _placed(staging: Staging) -> tuple[Artifact, ...]:
    """Give the files of a job the names that user code expects."""
    placed: dict[str, Staged] = {}
    artifacts = []
    for number, staged in enumerate(staging.staged):
        known = placed.get(staged.name)
        if known is not None and known.sha256 != staged.sha256:
            message = (
                f"Two environments of the pipeline stage different files as {staged.name!r}. "
                "Give one of them another name."
            )
            raise BadSetup(message)
        target = staging.home / "files" / staged.name
        if known is None:
            target.parent.mkdir(parents=True, exist_ok=True)
            staged.path.rename(target)
            offered = staged.offered
            artifacts.append(Artifact(staged.name, target, offered.role_urn, offered.type_urn))
        staging.staged[number] = Staged(staged.offered, target, staged.sha256)
        placed[staged.name] = staged
    return tuple(artifacts)
