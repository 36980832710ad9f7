"""One job of the server: it waits until it may run, then a driver process runs it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import grpc
from apache_beam.portability.api import beam_job_api_pb2 as api
from typing_extensions import override

from sparkdrain.drain.runs import DrainDisabled
from sparkdrain.errors import Cancelled, DriverLost
from sparkdrain.jobs.calls import DRY_RUN_KEY, raise_ours
from sparkdrain.jobs.failures import describe
from sparkdrain.jobs.served import DryRun, ServedJob
from sparkdrain.jobs.states import TERMINAL, IllegalTransition
from sparkdrain.server.handover import handover, read_list, write_list
from sparkdrain.server.session import Session
from sparkdrain.types import CancelToken

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from apache_beam.portability.api import beam_runner_api_pb2
    from apache_beam.portability.api.beam_job_api_pb2_grpc import JobServiceStub

    from sparkdrain.jobs.served import Submission
    from sparkdrain.jobs.story import JobStory
    from sparkdrain.server.admission import Admission, Names
    from sparkdrain.server.driver import Driver
    from sparkdrain.server.drivers import Drivers
    from sparkdrain.server.job_store import Journal
    from sparkdrain.types import Artifact

_S = api.JobState
_M = api.JobMessage

_LOST: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED})
_ANSWER_SECONDS: Final = 10.0
_CANCEL_SECONDS: Final = 30.0
_END_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Facilities:
    """What all jobs of a server share.

    Attributes:
        admission: says how many jobs run at a time.
        drivers: hands out driver processes.
        names: the names of jobs that wait or run.
        files: for each job a folder, by its id.
        on_end: hears of every job that has ended.
    """

    admission: Admission
    drivers: Drivers
    names: Names
    files: Path
    on_end: Callable[[DrivenJob], object]


class DrivenJob(ServedJob):
    """A job that a driver process runs. Whatever happens to the process, the job ends and says how.

    Args:
        submission: what to run.
        facilities: what all jobs of the server share.
        journal: is told all that happens to the job.
        story: what has happened to the job so far.
    """

    def __init__(
        self, submission: Submission, facilities: Facilities, journal: Journal, story: JobStory
    ) -> None:
        self.submission = submission
        self.journal = journal
        self._facilities = facilities
        self._listed = facilities.files / submission.job_id / "artifacts.json"
        self._story = story
        self._cancel = CancelToken()
        self._is_left = False
        self._wants_drain = self.state.state == _S.DRAINING
        self._driver: Driver | None = None
        self._service: JobServiceStub | None = None
        self._metrics = api.MetricResults()

    @property
    @override
    def story(self) -> JobStory:
        return self._story

    @property
    @override
    def info(self) -> api.JobInfo:
        return self.submission.info(self.state.state)

    @property
    @override
    def pipeline(self) -> beam_runner_api_pb2.Pipeline:
        return self.submission.pipeline

    @override
    def run(
        self, collect: Callable[[], Sequence[Artifact]], clean_up: Callable[[], object]
    ) -> None:
        job_id, name = self.submission.job_id, self.submission.name
        with self._story.lock:
            if self.state.state == _S.STOPPED:
                self._facilities.names.claim(name, job_id)
                try:
                    self.journal.open(self.submission)
                except BaseException:
                    self._facilities.names.release(name, job_id)
                    raise
            self._story.move(_S.STARTING)
        self._start(collect, clean_up)

    def take_up(self, clean_up: Callable[[], object]) -> None:
        """Go on with a job that a server before this one had; its files are there.

        Args:
            clean_up: called when nothing reads those files any more.
        """
        self._facilities.names.claim(self.submission.name, self.submission.job_id)
        self._start(lambda: read_list(self._listed), clean_up)

    def leave(self) -> None:
        """End the driver process, and nothing else: a server to come takes the job up."""
        self._is_left = True
        self._cancel.cancel()
        if self._driver is not None:
            self._driver.end()
        self.journal.flush()

    def _start(
        self, collect: Callable[[], Sequence[Artifact]], clean_up: Callable[[], object]
    ) -> None:
        name = f"sparkdrain-job-{self.submission.job_id}"
        threading.Thread(
            target=self._work, args=(collect, clean_up), name=name, daemon=True
        ).start()

    @override
    def cancel(self) -> None:
        self._story.cancel(self._cancel)

    @override
    def drain(self) -> None:
        with self._story.lock:
            if self.state.state == _S.STOPPED:
                message = (
                    f"Job {self.submission.job_id!r} has not been started, so there is nothing to "
                    "drain. Run it first, or cancel it."
                )
                raise IllegalTransition(message)
            if not self.is_running or self.state.state == _S.CANCELLING:
                return
            if not self.submission.settings.drain:
                message = (
                    f"Job {self.submission.job_id!r} cannot be drained: it was started with "
                    "--drain=off."
                )
                raise DrainDisabled(message)
            self._wants_drain = True
            service = self._service
            if service is None and self.state.state == _S.STARTING:
                # Its driver, when there is one, is told before the job reads anything.
                self._story.move(_S.DRAINING)
                return
        if service is not None and self._drain(service) == _S.DRAINING:
            self._enter(_S.DRAINING)
        else:
            self._story.wait(_END_SECONDS)  # it was over when the request came, or soon after

    @override
    def dry_run(self, seconds: float) -> DryRun:
        service = self._service
        if service is None:
            return DryRun("The job does not run, so there is nothing inside.", ())
        request = api.GetJobMetricsRequest(job_id=self.submission.job_id)
        try:
            response, call = service.GetJobMetrics.with_call(
                request, metadata=((DRY_RUN_KEY, "1"),), timeout=seconds + _ANSWER_SECONDS
            )
        except grpc.RpcError:
            return DryRun("The driver process of the job does not answer. Ask again.", ())
        text = dict(call.trailing_metadata()).get(DRY_RUN_KEY, "")
        return DryRun(str(text), response.metrics.attempted)

    @override
    def metrics(self) -> api.MetricResults:
        if (service := self._service) is not None:
            self._ask_metrics(service)
        return self._metrics

    def _work(
        self, collect: Callable[[], Sequence[Artifact]], clean_up: Callable[[], object]
    ) -> None:
        job_id = self.submission.job_id
        try:
            end = self._attempt(collect)
        except BaseException as error:  # noqa: BLE001 - the job must end in every case
            end = self._failed(error)
        self._service = None
        if self._is_left:
            return
        self._facilities.names.release(self.submission.name, job_id)
        clean_up()
        self.journal.keep_metrics(self._metrics)
        self._enter(end)
        self._facilities.on_end(self)
        # A process takes seconds to end, for which no client has to wait; the next job does.
        if self._driver is not None:
            self._driver.end()
        self._facilities.admission.leave(job_id)
        self._facilities.drivers.hurry()

    def _attempt(self, collect: Callable[[], Sequence[Artifact]]) -> int:
        job_id = self.submission.job_id
        write_list(self._listed, collect())
        if not self._facilities.admission.wait_for(job_id, self._cancel, self._tell_wait):
            raise Cancelled(job_id)
        taken = self._facilities.drivers.take(Session.of(self.submission.settings))
        self._driver = driver = taken.driver
        self.story.messages.message(
            _M.JOB_MESSAGE_DETAILED,
            f"The job runs in the driver process {driver.pid}, which {taken.how}.",
        )
        self._cancel.on_cancel(lambda: self._see_cancelled(driver))
        try:
            return self._drive(driver)
        except grpc.RpcError as error:
            if error.code() not in _LOST:
                raise_ours(error)
            raise driver.lost() from None

    def _drive(self, driver: Driver) -> int:
        job_id = self.submission.job_id
        service = driver.service()
        service.Prepare(self.submission.request(), metadata=handover(job_id, self._listed))
        if self._cancel.is_cancelled():
            raise Cancelled(job_id)
        self.journal.tell_driven()
        service.Run(api.RunJobRequest(preparation_id=job_id))
        with self._story.lock:
            self._service = service
            wants_drain = self._wants_drain
        if self._cancel.is_cancelled():
            service.Cancel(api.CancelJobRequest(job_id=job_id))
        elif wants_drain:
            self._drain(service)
        return self._follow(service)

    def _follow(self, service: JobServiceStub) -> int:
        """Tell all that the driver tells, until it says how the job has ended."""
        for response in service.GetMessageStream(
            api.JobMessagesRequest(job_id=self.submission.job_id)
        ):
            if response.HasField("message_response"):
                if not self._is_left:
                    self.story.messages.relay(response)
            elif (state := response.state_response.state) in TERMINAL:
                self._ask_metrics(service)
                return int(state)
            else:
                self._enter(state)
        message = (
            f"The driver process of the job {self.submission.job_id} has not said how it ended."
        )
        raise DriverLost(message)

    def _enter(self, state: int) -> None:
        if not self._is_left:
            self._story.follow(state)

    def _drain(self, service: JobServiceStub) -> int | None:
        """The job's state after the request; None if its driver has ended before it answered."""
        try:
            answer = service.Drain(api.DrainJobRequest(job_id=self.submission.job_id))
        except grpc.RpcError as error:
            if error.code() in _LOST:
                return None
            raise_ours(error)
        except ValueError:  # so gRPC calls a channel that is closed
            return None
        return int(answer.state)

    def _ask_metrics(self, service: JobServiceStub) -> None:
        request = api.GetJobMetricsRequest(job_id=self.submission.job_id)
        try:
            self._metrics = service.GetJobMetrics(request, timeout=_ANSWER_SECONDS).metrics
        except grpc.RpcError:
            return  # what was known last is the best there is

    def _see_cancelled(self, driver: Driver) -> None:
        """Have the driver cancel the job; kill the driver if it does not."""
        service = self._service
        if service is None:
            driver.kill()
            return
        request = api.CancelJobRequest(job_id=self.submission.job_id)
        call = service.Cancel.future(request, timeout=_ANSWER_SECONDS)
        call.add_done_callback(lambda _: None)
        killer = threading.Timer(_CANCEL_SECONDS, self._kill_late, (driver,))
        killer.daemon = True
        killer.start()

    def _kill_late(self, driver: Driver) -> None:
        if self._service is not None:
            driver.kill()

    def _failed(self, error: BaseException) -> int:
        if self._is_left or self._cancel.is_cancelled():
            return _S.CANCELLED
        text = describe(error, f"{self.submission.name!r} ({self.submission.job_id})")
        self.story.messages.failed(type(error).__name__, text)
        return _S.FAILED

    def _tell_wait(self, before: int) -> None:
        limit = self._facilities.admission.limit
        text = (
            f"The job waits: {limit} run, as many as --max-jobs allows, and {before} "
            "wait before it."
        )
        self.story.messages.message(_M.JOB_MESSAGE_BASIC, text)
