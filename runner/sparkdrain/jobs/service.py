"""Beam's Job API: every call of the service, in terms of jobs."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import grpc
from apache_beam.portability.api import beam_job_api_pb2 as api
from apache_beam.portability.api import beam_job_api_pb2_grpc, endpoints_pb2

from sparkdrain.coordination.metadata import StoreDown
from sparkdrain.drain.runs import DrainDisabled, RunTaken
from sparkdrain.errors import (
    BadOption,
    BadSetup,
    Malformed,
    NameTaken,
    SparkDrainError,
    Unsupported,
)
from sparkdrain.jobs import described_options
from sparkdrain.jobs.calls import DRY_RUN_KEY, ERROR_KIND_KEY, LEAVE_KEY
from sparkdrain.jobs.messages import readable, shortened
from sparkdrain.jobs.served import NoSuchJob, Submission
from sparkdrain.jobs.states import IllegalTransition
from sparkdrain.metrics.shown import shown
from sparkdrain.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sparkdrain.jobs.artifacts import StagedFiles
    from sparkdrain.jobs.served import ServedJobs

_DRY_RUN_SECONDS: Final = 60.0

# gRPC sends the text of an error as a percent-encoded header; headers are limited to 8 KiB in all.
_LONGEST_DETAILS: Final = 6000

_CODES: Final = {
    NoSuchJob: grpc.StatusCode.NOT_FOUND,
    Unsupported: grpc.StatusCode.FAILED_PRECONDITION,
    Malformed: grpc.StatusCode.INVALID_ARGUMENT,
    NameTaken: grpc.StatusCode.ALREADY_EXISTS,
    BadOption: grpc.StatusCode.INVALID_ARGUMENT,
    BadSetup: grpc.StatusCode.FAILED_PRECONDITION,
    IllegalTransition: grpc.StatusCode.FAILED_PRECONDITION,
    DrainDisabled: grpc.StatusCode.FAILED_PRECONDITION,
    RunTaken: grpc.StatusCode.ALREADY_EXISTS,
    StoreDown: grpc.StatusCode.UNAVAILABLE,
}


class JobService(beam_job_api_pb2_grpc.JobServiceServicer):
    """Answers the Job API; a preparation id is the job id.

    Failures that we know are gRPC errors with a fitting code, the message as details, and the name
    of the error's type under ``ERROR_KIND_KEY`` in the trailing metadata.
    """

    def __init__(
        self,
        jobs: ServedJobs,
        artifacts: StagedFiles,
        job_id_for: Callable[[str, grpc.ServicerContext], str] | None = None,
        defaults: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare; ``endpoint`` is to be set before the first call.

        Args:
            job_id_for: names a job, from the client's name for it and the call; a name that no
                other job has if None.
            defaults: options, by URN, of jobs whose client gives none of that name.
        """
        self.endpoint = ""
        self.staging_endpoint = ""
        self._jobs = jobs
        self._artifacts = artifacts
        self._job_id_for = job_id_for or _new_job_id
        self._defaults = defaults or {}

    def Prepare(  # noqa: N802 (gRPC)
        self, request: api.PrepareJobRequest, context: grpc.ServicerContext
    ) -> api.PrepareJobResponse:
        """Check the pipeline and its options; nothing is started."""
        for urn, value in self._defaults.items():
            if urn not in request.pipeline_options or request.pipeline_options[urn] is None:
                request.pipeline_options[urn] = value
        with _telling(context):
            job_id = self._job_id_for(request.job_name, context)
            submission = Submission.of(job_id, request, self.endpoint)
            self._jobs.check(submission)
            self._artifacts.expect(job_id, request.pipeline)
            for forgotten in self._jobs.add(submission):
                self._artifacts.forget(forgotten)
        return api.PrepareJobResponse(
            preparation_id=job_id,
            artifact_staging_endpoint=endpoints_pb2.ApiServiceDescriptor(
                url=self.staging_endpoint or self.endpoint
            ),
            staging_session_token=job_id,
        )

    def Run(  # noqa: N802
        self, request: api.RunJobRequest, context: grpc.ServicerContext
    ) -> api.RunJobResponse:
        """Start a prepared job."""
        with _telling(context):
            job_id = request.preparation_id
            self._jobs.get(job_id).run(
                collect=lambda: self._artifacts.collect(job_id),
                clean_up=lambda: self._artifacts.forget(job_id),
            )
        return api.RunJobResponse(job_id=job_id)

    def GetJobs(  # noqa: N802
        self, request: api.GetJobsRequest, context: grpc.ServicerContext
    ) -> api.GetJobsResponse:
        """All known jobs."""
        with _telling(context):
            return api.GetJobsResponse(job_info=[job.info for job in self._jobs.all()])

    def GetState(  # noqa: N802
        self, request: api.GetJobStateRequest, context: grpc.ServicerContext
    ) -> api.JobStateEvent:
        """The state of a job now."""
        with _telling(context):
            return self._jobs.get(request.job_id).state

    def GetPipeline(  # noqa: N802
        self, request: api.GetJobPipelineRequest, context: grpc.ServicerContext
    ) -> api.GetJobPipelineResponse:
        """The pipeline as it was submitted."""
        with _telling(context):
            job = self._jobs.get(request.job_id)
            return api.GetJobPipelineResponse(pipeline=job.pipeline)

    def Cancel(  # noqa: N802
        self, request: api.CancelJobRequest, context: grpc.ServicerContext
    ) -> api.CancelJobResponse:
        """Ask a job to stop; the answer is its state right after that.

        With ``LEAVE_KEY`` in the call's metadata, drivers that stand by go on with it.
        """
        leaves = dict(context.invocation_metadata()).get(LEAVE_KEY) is not None
        with _telling(context):
            job = self._jobs.get(request.job_id)
            (job.leave if leaves else job.cancel)()
        return api.CancelJobResponse(state=job.state.state)

    def Drain(  # noqa: N802
        self, request: api.DrainJobRequest, context: grpc.ServicerContext
    ) -> api.DrainJobResponse:
        """Ask a job to end with nothing left inside; the answer is its state right after that."""
        with _telling(context):
            job = self._jobs.get(request.job_id)
            job.drain()
        return api.DrainJobResponse(state=job.state.state)

    def GetStateStream(  # noqa: N802
        self, request: api.GetJobStateRequest, context: grpc.ServicerContext
    ) -> Iterator[api.JobStateEvent]:
        """The history of a job's states, then new ones until it is over."""
        with _telling(context):
            states = self._jobs.get(request.job_id).story.states
        context.add_callback(states.wake)
        yield from states.follow(context.is_active)

    def GetMessageStream(  # noqa: N802
        self, request: api.JobMessagesRequest, context: grpc.ServicerContext
    ) -> Iterator[api.JobMessagesResponse]:
        """The newest messages and states of a job, then new ones until it is over."""
        with _telling(context):
            messages = self._jobs.get(request.job_id).story.messages
        context.add_callback(messages.wake)
        yield from messages.follow(context.is_active)

    def GetJobMetrics(  # noqa: N802
        self, request: api.GetJobMetricsRequest, context: grpc.ServicerContext
    ) -> api.GetJobMetricsResponse:
        """Attempted metrics as far as tasks have told them, and committed ones of what counts.

        A batch job commits everything when it is done, a stream with each round.

        With ``DRY_RUN_KEY`` in the call's metadata, the metrics say what a drain would find. The
        trailing metadata has the same as text, or the reason why the job cannot tell.
        """
        with _telling(context):
            job = self._jobs.get(request.job_id)
            if dict(context.invocation_metadata()).get(DRY_RUN_KEY) is None:
                found = job.metrics()
                metrics = api.MetricResults(
                    attempted=shown(found.attempted), committed=shown(found.committed)
                )
                return api.GetJobMetricsResponse(metrics=metrics)
            answer = job.dry_run(_DRY_RUN_SECONDS)
        context.set_trailing_metadata(((DRY_RUN_KEY, redact(answer.text)),))
        infos = shown(answer.infos)
        return api.GetJobMetricsResponse(
            metrics=api.MetricResults(attempted=infos, committed=infos)
        )

    def DescribePipelineOptions(  # noqa: N802
        self, request: api.DescribePipelineOptionsRequest, context: grpc.ServicerContext
    ) -> api.DescribePipelineOptionsResponse:
        """The options of this runner."""
        return described_options.describe()


@contextlib.contextmanager
def _telling(context: grpc.ServicerContext) -> Iterator[None]:
    try:
        yield
    except SparkDrainError as error:
        known = (_CODES[cls] for cls in type(error).__mro__ if cls in _CODES)
        context.set_trailing_metadata(((ERROR_KIND_KEY, type(error).__name__),))
        code = next(known, grpc.StatusCode.INTERNAL)
        context.abort(code, _details(readable(str(error))))
        raise AssertionError from None  # `abort` never returns


def _details(text: str) -> str:
    longest = _LONGEST_DETAILS
    while len(quote(details := shortened(text, longest))) > _LONGEST_DETAILS:
        longest //= 2
    return details


def _new_job_id(name: str, context: grpc.ServicerContext) -> str:
    # The id names a directory: only what is harmless in a path may stay.
    safe = "".join(c if c.isascii() and c.isalnum() else "-" for c in name)[:60].strip("-")
    return f"{safe or 'job'}-{uuid.uuid4()}"
