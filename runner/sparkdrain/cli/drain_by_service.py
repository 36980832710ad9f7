"""Drains a job through the job service that runs it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import grpc
from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc

from sparkdrain.errors import BadSetup
from sparkdrain.jobs import drain_progress
from sparkdrain.jobs.access import Access
from sparkdrain.jobs.calls import DRY_RUN_KEY, raise_ours
from sparkdrain.jobs.served import NoSuchJob
from sparkdrain.jobs.states import TERMINAL, name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from apache_beam.portability.api.beam_job_api_pb2_grpc import JobServiceStub

_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 90.0


@contextlib.contextmanager
def connected(
    endpoint: str, seconds: float | None = None, access: Access | None = None
) -> Iterator[JobServiceStub]:
    """The service at ``endpoint``.

    Args:
        seconds: how long to wait for it.
        access: what the service asks for; nothing if None.

    Raises:
        BadSetup: no service answers there.
    """
    seconds = _SECONDS if seconds is None else seconds
    with (access or Access()).channel(endpoint) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=seconds)
        except grpc.FutureTimeoutError as error:
            message = f"No job service answers at {endpoint} within {seconds:g} s."
            raise BadSetup(message) from error
        yield beam_job_api_pb2_grpc.JobServiceStub(channel)


def find(service: JobServiceStub, job: str) -> str:
    """The id of the job with that id, or of the only one of that name that goes on.

    Raises:
        NoSuchJob: there is none, or more than one; names those that are there.
    """
    infos = list(service.GetJobs(beam_job_api_pb2.GetJobsRequest()).job_info)
    if job in {info.job_id for info in infos}:
        return job
    named = [info.job_id for info in infos if info.job_name == job]
    going_on = [i.job_id for i in infos if i.job_name == job and i.state not in TERMINAL]
    found = going_on or named[-1:]
    if len(found) == 1:
        return str(found[0])
    known = ", ".join(f"{info.job_id} ({name(info.state)})" for info in infos) or "none"
    which = f"{len(found)} jobs are" if found else "No job is"
    message = f"{which} called {job!r} at this service. It knows: {known}."
    raise NoSuchJob(message)


def request(service: JobServiceStub, job_id: str) -> str:
    """Ask for the drain; the answer is the job's state."""
    try:
        answer = service.Drain(beam_job_api_pb2.DrainJobRequest(job_id=job_id))
    except grpc.RpcError as error:
        raise_ours(error)
    return name(answer.state)


def phase(service: JobServiceStub, info: beam_job_api_pb2.JobInfo) -> str:
    """The phase of the drain of a job that is DRAINING; empty for other jobs."""
    if info.state != beam_job_api_pb2.JobState.DRAINING:
        return ""
    asked = beam_job_api_pb2.GetJobMetricsRequest(job_id=info.job_id)
    metrics = service.GetJobMetrics(asked, timeout=_ANSWER_SECONDS).metrics
    found = drain_progress.phase_in(metrics.attempted)
    return "" if found is None else found.name


def dry_run(service: JobServiceStub, job_id: str) -> str:
    """What a drain would find, as text; nothing is drained."""
    asked = beam_job_api_pb2.GetJobMetricsRequest(job_id=job_id)
    response, call = service.GetJobMetrics.with_call(
        asked, metadata=((DRY_RUN_KEY, "1"),), timeout=_ANSWER_SECONDS
    )
    answer = dict(call.trailing_metadata()).get(DRY_RUN_KEY)
    if answer is None:
        return "This job service cannot tell: it is of an older release, or not sparkdrain's."
    return "\n".join([str(answer), *drain_progress.lines(response.metrics.attempted)])


def follow(service: JobServiceStub, job_id: str, tell: Callable[[str], object]) -> str:
    """Tell how the drain goes on until the job is over; the answer is how it ended."""
    asked = beam_job_api_pb2.JobMessagesRequest(job_id=job_id)
    state = ""
    for response in service.GetMessageStream(asked):
        if response.HasField("state_response"):
            state = name(response.state_response.state)
        elif state in ("DRAINING", "CANCELLING"):
            tell(response.message_response.message_text)
    return state
