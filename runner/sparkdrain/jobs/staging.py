"""The gRPC services by which files come to a Job service, and can be had again.

Both check contents: a file whose SHA-256 is told is taken, and given, with that content only.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import grpc
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_artifact_api_pb2 as api
from apache_beam.portability.api import beam_artifact_api_pb2_grpc, beam_runner_api_pb2

from sparkdrain.errors import BadSetup, Malformed
from sparkdrain.graph.staged import staged_name, told_sha256
from sparkdrain.graph.wellformed import check_artifact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sparkdrain.jobs.kept_files import KeptFiles

ArtifactInformation: TypeAlias = beam_runner_api_pb2.ArtifactInformation

FILE: Final = common_urns.artifact_types.FILE.urn

_CHUNK: Final = 1 << 20
"""Bytes that are read or sent at a time."""

_OTHER_SECONDS: Final = 10.0

SILENT_SECONDS: Final = 600.0
"""How long a client may send nothing. It may have to fetch a file first, or to make it."""


class WrongContent(BadSetup):
    """A file is not what its sender says; names the file and both hashes."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A file that has come.

    Attributes:
        offered: what the client offered.
        path: where the file is.
        sha256: the SHA-256 of its content, in hexadecimal digits.
    """

    offered: ArtifactInformation
    path: Path
    sha256: str

    @property
    def name(self) -> str:
        """The name that user code expects."""
        return staged_name(self.offered) or self.path.name


@dataclass(slots=True)
class Staging:
    """The files of one job, as they come.

    Attributes:
        home: the folder for them.
        wanted: what each environment of the pipeline depends on.
        kept: what other jobs have staged.
        staged: what has come.
        problem: why not everything came; empty if it did, or may still come.
        over: whether a client has sent all, or has failed to.
    """

    home: Path
    wanted: Sequence[Sequence[ArtifactInformation]]
    kept: KeptFiles
    staged: list[Staged] = field(default_factory=list)
    problem: str = ""
    over: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)


class _Gone(Exception):
    """The client went away before it had sent all."""


class ReverseRetrieval(beam_artifact_api_pb2_grpc.ArtifactStagingServiceServicer):
    """Asks a client for the files of its job, one after another; not for those that are kept.

    A file is written under another name until all of it is there. A client that goes away, or that
    is silent for too long, leaves no part of a file, and may come again.

    Args:
        find: the staging of a token; None if there is none.
        silent_seconds: how long a client may send nothing.
    """

    def __init__(
        self, find: Callable[[str], Staging | None], silent_seconds: float = SILENT_SECONDS
    ) -> None:
        self._find = find
        self._silent_seconds = silent_seconds

    def ReverseArtifactRetrievalService(  # noqa: N802 (gRPC)
        self, messages: Iterator[api.ArtifactResponseWrapper], context: grpc.ServicerContext
    ) -> Iterator[api.ArtifactRequestWrapper]:
        """Take the files of the job whose token the client sends first."""
        responses = _Responses(messages, context, self._silent_seconds)
        try:
            token = responses.take().staging_token
        except _Gone:
            return
        staging = self._find(token)
        if staging is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"No such staging token: {token!r}")
            raise AssertionError
        # A client that comes again may be faster than the end of its broken call.
        if not staging.lock.acquire(timeout=_OTHER_SECONDS):
            context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"Another client stages the files of {token!r} at this moment.",
            )
        try:
            staging.staged, staging.problem = [], ""
            # A client is asked at least once. The TypeScript SDK waits for a message for ever.
            for dependencies in staging.wanted or [()]:
                yield from _resolve_and_get(staging, dependencies, responses)
        except (WrongContent, Malformed) as error:
            staging.problem = str(error)
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except _Gone:
            if responses.was_silent:
                staging.problem += (
                    f" The client sent nothing for {self._silent_seconds:g} seconds, so the "
                    "service ended the upload. Submit the job again."
                )
        finally:
            staging.over.set()
            staging.lock.release()


class _Responses:
    """What a client sends. The call of a client that is silent for too long ends.

    Attributes:
        was_silent: whether the call ended for that reason.
    """

    def __init__(
        self,
        messages: Iterator[api.ArtifactResponseWrapper],
        context: grpc.ServicerContext,
        seconds: float,
    ) -> None:
        self._messages = messages
        self._context = context
        self._seconds = seconds
        self.was_silent = False

    def take(self) -> api.ArtifactResponseWrapper:
        """The next message.

        Raises:
            _Gone: the client has gone away, or is silent.
        """
        # Nothing else ends the wait for a message: only the end of the call does.
        late = threading.Timer(self._seconds, self._end)
        late.daemon = True
        late.start()
        try:
            return next(self._messages)
        except (StopIteration, grpc.RpcError) as error:
            raise _Gone from error
        finally:
            late.cancel()

    def _end(self) -> None:
        self.was_silent = True
        self._context.cancel()


def _resolve_and_get(
    staging: Staging,
    dependencies: Sequence[ArtifactInformation],
    responses: _Responses,
) -> Iterator[api.ArtifactRequestWrapper]:
    staging.problem = f"{len(dependencies)} files were offered for staging but did not arrive."
    resolve = api.ResolveArtifactsRequest(artifacts=dependencies)
    yield api.ArtifactRequestWrapper(resolve_artifact=resolve)
    for offered in responses.take().resolve_artifact_response.replacements:
        check_artifact(offered, "A file that the client offers")
        name = _shown_name(offered)
        staging.problem = f"{name!r} was offered for staging but did not arrive."
        path = staging.home / hashlib.sha256(offered.SerializeToString()).hexdigest()
        sha256 = told_sha256(offered)
        if not staging.kept.put(sha256, path):
            request = api.GetArtifactRequest(artifact=offered)
            yield api.ArtifactRequestWrapper(get_artifact=request)
            sha256 = _write(path, responses)
            check_content(name, sha256, told_sha256(offered))
            staging.kept.keep(path, sha256)
        staging.staged.append(Staged(offered, path, sha256))
    staging.problem = ""


def _write(path: Path, responses: _Responses) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    summed = hashlib.sha256()
    try:
        with part.open("wb") as file:
            is_last = False
            while not is_last:
                response = responses.take()
                summed.update(response.get_artifact_response.data)
                file.write(response.get_artifact_response.data)
                is_last = response.is_last
        os.replace(part, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
    return summed.hexdigest()


class Retrieval(beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceServicer):
    """Gives files that were staged, to workers for instance; never another file of this machine.

    Args:
        find: the staged file of what a client has offered; None if there is none.
    """

    def __init__(self, find: Callable[[ArtifactInformation], Staged | None]) -> None:
        self._find = find

    def ResolveArtifacts(  # noqa: N802
        self, request: api.ResolveArtifactsRequest, context: grpc.ServicerContext
    ) -> api.ResolveArtifactsResponse:
        """What can be had, with its hash, for each dependency of a submitted pipeline."""
        return api.ResolveArtifactsResponse(
            replacements=[self._resolved(each, context) for each in request.artifacts]
        )

    def GetArtifact(  # noqa: N802
        self, request: api.GetArtifactRequest, context: grpc.ServicerContext
    ) -> Iterator[api.GetArtifactResponse]:
        """The content of a file; an error at its end if the content is not what was staged."""
        staged = self._staged(request.artifact, context)
        summed = hashlib.sha256()
        with staged.path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                summed.update(chunk)
                yield api.GetArtifactResponse(data=chunk)
        try:
            told = told_sha256(request.artifact) or staged.sha256
            check_content(staged.name, summed.hexdigest(), told)
        except WrongContent as error:
            context.abort(grpc.StatusCode.DATA_LOSS, str(error))

    def _resolved(
        self, offered: ArtifactInformation, context: grpc.ServicerContext
    ) -> ArtifactInformation:
        staged = self._staged(offered, context)
        payload = beam_runner_api_pb2.ArtifactFilePayload(
            path=str(staged.path), sha256=staged.sha256
        )
        return beam_runner_api_pb2.ArtifactInformation(
            type_urn=FILE,
            type_payload=payload.SerializeToString(),
            role_urn=offered.role_urn,
            role_payload=offered.role_payload,
        )

    def _staged(self, offered: ArtifactInformation, context: grpc.ServicerContext) -> Staged:
        try:
            check_artifact(offered, "A file that the client asks for")
        except Malformed as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        staged = self._find(offered)
        if staged is None:
            context.abort(
                grpc.StatusCode.NOT_FOUND,
                f"{_shown_name(offered)!r} was not staged here, or its job has ended.",
            )
            raise AssertionError
        return staged


def file_path(offered: ArtifactInformation) -> str:
    """The path of a file on the machine that offers it; empty if it is something else."""
    if offered.type_urn != FILE:
        return ""
    return str(beam_runner_api_pb2.ArtifactFilePayload.FromString(offered.type_payload).path)


def check_content(name: str, found: str, told: str) -> None:
    """Return if a file has the content that it is said to have.

    Raises:
        WrongContent: it has another.
    """
    if told and found != told:
        message = (
            f"{name!r} has the SHA-256 {found}, and should have {told}: it was changed, or damaged "
            "on its way. Submit the job again."
        )
        raise WrongContent(message)


def _shown_name(offered: ArtifactInformation) -> str:
    return Path(file_path(offered)).name or staged_name(offered) or offered.type_urn
