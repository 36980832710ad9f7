"""The client's half of the Job API: hands a pipeline to a job service and starts it."""

from __future__ import annotations

import atexit
import functools
import json
import logging
import os
import secrets
import sys
from typing import TYPE_CHECKING, Any

import grpc
from apache_beam.options.pipeline_options import GoogleCloudOptions, PortableOptions
from apache_beam.portability.api import (
    beam_artifact_api_pb2_grpc,
    beam_job_api_pb2,
    beam_job_api_pb2_grpc,
)
from apache_beam.runners.portability import artifact_service
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.transforms.environments import expand_anyof_environments

from sparkdrain.errors import BadOption, BadSetup
from sparkdrain.jobs.access import Access
from sparkdrain.jobs.calls import raise_ours
from sparkdrain.jobs.described_options import MASTER_URN
from sparkdrain.jobs.local import local_server
from sparkdrain.options import JobSettings, SparkDrainOptions
from sparkdrain.redaction import redacted
from sparkdrain.spark_master import given_master

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.portability.api import beam_runner_api_pb2
    from google.protobuf.struct_pb2 import Struct

_LOGGER = logging.getLogger(__name__)


_OWN_PROCESS = Access()


class ServiceHandle(JobServiceHandle):
    """Submits one pipeline; raises our own errors instead of gRPC's.

    Other than Beam's handle it puts no deadline on the streams of a running job. If the program is
    interrupted while a job starts, the handle cancels the job.
    """

    def __init__(
        self, endpoint: str, options: PipelineOptions, access: Access = _OWN_PROCESS
    ) -> None:
        self._endpoint = endpoint
        self._access = access
        self._channel = _channel(endpoint, os.getpid(), access)
        stub = beam_job_api_pb2_grpc.JobServiceStub(self._channel)
        super().__init__(stub, options, retain_unknown_options=True)

    def wait_until_ready(self) -> None:
        """Return when the service answers.

        Raises:
            BadSetup: it does not, within ``--job_server_timeout``.
        """
        try:
            grpc.channel_ready_future(self._channel).result(timeout=self.timeout)
        except grpc.FutureTimeoutError as error:
            message = (
                f"No job service answers at --job_endpoint={self._endpoint} within {self.timeout} "
                "s (--job_server_timeout). Leave --job_endpoint out to run in this process."
            )
            raise BadSetup(message) from error

    def get_pipeline_options(self) -> Struct:
        """The options as the service gets them; the Spark master only if the user named one."""
        described = super().get_pipeline_options()
        if given_master(self.options) is None and MASTER_URN in described:
            del described[MASTER_URN]
        return described

    @staticmethod
    def encode_pipeline_options(all_options: dict[str, Any]) -> Struct:
        """As Beam does, without what cannot be sent: objects that the program put in.

        Raises:
            BadOption: a text is none that UTF-8 has.
        """
        sendable = {name: value for name, value in all_options.items() if _is_json(name, value)}
        for name, value in sendable.items():
            _check_characters(name, value)
        return JobServiceHandle.encode_pipeline_options(sendable)

    def prepare(
        self, proto_pipeline: beam_runner_api_pb2.Pipeline
    ) -> beam_job_api_pb2.PrepareJobResponse:
        """Have the pipeline checked; nothing runs yet.

        Raises:
            SparkDrainError: an error of the kind that the service says.
        """
        request = beam_job_api_pb2.PrepareJobRequest(
            job_name=self._job_name(),
            pipeline=proto_pipeline,
            pipeline_options=self.get_pipeline_options(),
        )
        try:
            return self.job_service.Prepare(request, timeout=self.timeout)
        except grpc.RpcError as error:
            raise_ours(error)

    def _job_name(self) -> str:
        given = self.options.view_as(GoogleCloudOptions).job_name
        if given:
            return str(given)
        keeps_name = self.options.view_as(SparkDrainOptions).checkpoint_dir
        if self._access is _OWN_PROCESS or keeps_name:
            return _program_name()
        # A server refuses a name that another job has, and one program may run twice.
        return f"{_program_name()}-{secrets.token_hex(3)}"

    def stage(
        self,
        proto_pipeline: beam_runner_api_pb2.Pipeline,
        artifact_staging_endpoint: str,
        staging_session_token: str,
    ) -> None:
        """Send the files that the pipeline depends on, if there are any."""
        asked = proto_pipeline.components.environments.values()
        if any(each.dependencies for one in asked for each in expand_anyof_environments(one)):
            channel = _channel(artifact_staging_endpoint, os.getpid(), self._access)
            artifact_service.offer_artifacts(
                beam_artifact_api_pb2_grpc.ArtifactStagingServiceStub(channel),
                artifact_service.ArtifactRetrievalService(
                    artifact_service.BeamFilesystemHandler(None).file_reader
                ),
                staging_session_token,
            )

    def run(self, preparation_id: str) -> tuple[str, Any, Any]:
        """Start the job; answers its id, its message stream and its state stream."""
        try:
            request = beam_job_api_pb2.RunJobRequest(preparation_id=preparation_id)
            job_id = self.job_service.Run(request).job_id
            messages = self.job_service.GetMessageStream(
                beam_job_api_pb2.JobMessagesRequest(job_id=job_id)
            )
            states = self.job_service.GetStateStream(
                beam_job_api_pb2.GetJobStateRequest(job_id=job_id)
            )
        except grpc.RpcError as error:
            raise_ours(error)
        except BaseException:
            # Interrupted in between: the job may run although no result will ever stand for it.
            self.job_service.Cancel(beam_job_api_pb2.CancelJobRequest(job_id=preparation_id))
            raise
        return job_id, messages, states


def head_start(options: PipelineOptions, settings: JobSettings) -> None:
    """Tell the service of this process, if it is to be used, that a job is about to come."""
    if not options.view_as(PortableOptions).job_endpoint:
        local_server().head_start(settings)


def submission(options: PipelineOptions, settings: JobSettings) -> ServiceHandle:
    """A handle on the service at ``--job_endpoint``, or on the one of this process.

    Raises:
        BadSetup: no service answers at ``--job_endpoint``.
        BadOption: what the service asks for cannot be read, or no service is named.
    """
    endpoint = options.view_as(PortableOptions).job_endpoint
    given = {
        "job_tls_ca": settings.job_tls_ca,
        "job_tls_cert": settings.job_tls_cert,
        "job_tls_key": settings.job_tls_key,
        "job_token_file": settings.job_token_file,
    }
    if not endpoint:
        for flag in filter(given.get, given):
            message = f"--{flag} has no effect without --job_endpoint: give that, too."
            raise BadOption(message)
        return ServiceHandle(local_server().endpoint, options)
    handle = ServiceHandle(endpoint, options, Access.read(given))
    handle.wait_until_ready()
    return handle


@functools.cache
def _channel(endpoint: str, process: int, access: Access) -> grpc.Channel:
    # By process: gRPC's connections do not survive a fork.
    channel = access.channel(endpoint)
    atexit.register(channel.close)  # runs before the server of this process is stopped
    return channel


def _program_name() -> str:
    # A file may have a name that is no text in UTF-8.
    file = os.path.basename(sys.argv[0]).encode("utf-8", "replace").decode()
    program = os.path.splitext(file)[0]
    return program if program[:1].isalpha() else "job"


def _check_characters(name: str, value: Any) -> None:
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            option = name.removeprefix("beam:option:").removesuffix(":v1")
            message = (
                f"--{option} cannot be {redacted(value, option)!r}: it holds half of a character, "
                "which cannot be sent. Give the option without it."
            )
            raise BadOption(message) from error


def _is_json(name: str, value: Any) -> bool:
    if hasattr(value, "is_accessible"):
        return True  # a ValueProvider: Beam sends its value
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        _LOGGER.warning(
            "Option %s is not sent to workers: %r is not plain data.", name, redacted(value, name)
        )
        return False
    return True
