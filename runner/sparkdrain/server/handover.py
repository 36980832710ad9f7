"""How the server tells a driver process what Beam's Job API has no field for."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from sparkdrain.jobs.artifacts import StagedFiles
from sparkdrain.types import Artifact

if TYPE_CHECKING:
    from collections.abc import Sequence

    import grpc
    from apache_beam.portability.api import beam_runner_api_pb2

_KEY: Final = "sparkdrain-handover-bin"


def handover(job_id: str, artifacts: Path) -> tuple[tuple[str, bytes], ...]:
    """One job, as metadata of the call of Prepare.

    Args:
        job_id: under which the server knows the job.
        artifacts: a file that lists the staged files.
    """
    return ((_KEY, json.dumps([job_id, str(artifacts)]).encode()),)


def write_list(file: Path, artifacts: Sequence[Artifact]) -> None:
    """Write down which files a job has."""
    rows = [(each.name, str(each.path), each.role_urn, each.type_urn) for each in artifacts]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(rows), "utf-8")


def read_list(file: Path) -> tuple[Artifact, ...]:
    """The inverse of ``write_list``."""
    rows = json.loads(file.read_text("utf-8"))
    return tuple(Artifact(name, Path(path), role, kind) for name, path, role, kind in rows)


class TakenOver(StagedFiles):
    """The files of the one job of a driver process; they belong to the server."""

    def __init__(self) -> None:
        self._file: Path | None = None
        self.has_come = threading.Event()
        """Whether the driver has its job."""

    def job_id_for(self, name: str, context: grpc.ServicerContext) -> str:
        """The id that the server has given the job; see ``JobService``."""
        del name
        job_id, file = json.loads(dict(context.invocation_metadata())[_KEY])
        self._file = Path(file)
        self.has_come.set()
        return str(job_id)

    @override
    def expect(self, token: str, pipeline: beam_runner_api_pb2.Pipeline) -> None:
        """Nothing is staged here."""

    @override
    def collect(self, token: str) -> tuple[Artifact, ...]:
        assert self._file is not None, "prepare first"
        return read_list(self._file)

    @override
    def forget(self, token: str) -> None:
        """The server removes the files."""
