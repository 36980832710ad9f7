"""One job: its thread, its cancellation, its end."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, cast

from apache_beam.metrics import monitoring_infos
from apache_beam.portability.api import beam_job_api_pb2
from typing_extensions import override

from sparkdrain.coordination.stores import STORES
from sparkdrain.drain.phases import DrainPhase
from sparkdrain.drain.runs import Run
from sparkdrain.errors import Cancelled, DrainLimitExceeded
from sparkdrain.invocation import Invocation, Observer
from sparkdrain.jobs import drain_progress
from sparkdrain.jobs.draining import Drained, JobDrain
from sparkdrain.jobs.failures import describe
from sparkdrain.jobs.messages import JobLogs
from sparkdrain.jobs.served import DryRun, ServedJob
from sparkdrain.jobs.states import IllegalTransition, name
from sparkdrain.jobs.story import JobStory
from sparkdrain.redaction import redact
from sparkdrain.standby.drivers import set_name
from sparkdrain.standby.leadership import Alone, EndedElsewhere
from sparkdrain.standby.standby import DriverEnd, Standby
from sparkdrain.types import CancelToken

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apache_beam.portability.api import beam_runner_api_pb2, metrics_pb2
    from google.protobuf.timestamp_pb2 import Timestamp

    from sparkdrain.drain.limits import Policy
    from sparkdrain.drain.progress import DrainProgress
    from sparkdrain.drain.runs import RunState
    from sparkdrain.invocation import Outcome
    from sparkdrain.jobs.engine import Engine
    from sparkdrain.jobs.served import Submission
    from sparkdrain.standby.drivers import TermState
    from sparkdrain.types import Artifact

_S = beam_job_api_pb2.JobState
_M = beam_job_api_pb2.JobMessage

_END_SECONDS = 10.0
_LEADING = "sparkdrain.standby"
"""The namespace of a job's counters about who leads it."""


class Job(ServedJob, Observer, Drained):
    """Runs one submission once, in a thread of its own; jobs do not affect each other.

    Always holds: the message and state streams end after, and only after, the job has entered a
    terminal state; ``outcome`` is set before DONE is visible, and in a streaming job while it runs.
    """

    def __init__(
        self, submission: Submission, engine: Engine, clock: Callable[[], Timestamp]
    ) -> None:
        self.submission = submission
        self._story = JobStory(clock)
        self.outcome: Outcome | None = None
        self._attempted: Callable[[], Sequence[metrics_pb2.MonitoringInfo]] = tuple
        self._engine = engine
        self._lock = self._story.lock
        self._cancel = CancelToken()
        self._given_up: str | None = None
        self._standby: Standby | None = None
        self._leaves = False
        self._cause = ""
        self._directory = ""
        self._progress: DrainProgress | None = None
        run = Run(
            submission.settings.run_id or submission.job_id,
            submission.job_id,
            submission.name,
            submission.endpoint,
            "RUNNING",
            drain=submission.settings.drain,
            began=clock().ToMicroseconds(),
            checkpoints=redact(submission.settings.checkpoint_dir),
        )
        self._drain = JobDrain(run, submission.settings, self, lambda: clock().ToMicroseconds())

    @property
    @override
    def story(self) -> JobStory:
        return self._story

    @property
    @override
    def info(self) -> beam_job_api_pb2.JobInfo:
        return self.submission.info(self.state.state)

    @property
    @override
    def pipeline(self) -> beam_runner_api_pb2.Pipeline:
        return self.submission.pipeline

    @override
    def run(
        self, collect: Callable[[], Sequence[Artifact]], clean_up: Callable[[], object]
    ) -> None:
        with self._lock:
            if self.state.state == _S.STOPPED:
                self._drain.open()
                warn = partial(self.message, _M.JOB_MESSAGE_WARNING)
                self._standby = _standby_for(self.submission, self._show, warn)
            self._story.move(_S.STARTING)
        # Now, and not in the job's thread: the program may go elsewhere while the job starts.
        with contextlib.suppress(OSError):
            self._directory = os.getcwd()
        thread = f"sparkdrain-job-{self.submission.job_id}"
        # A daemon, so that a job never keeps a crashed program alive; `local` sees jobs through.
        threading.Thread(
            target=self._work, args=(thread, collect, clean_up), name=thread, daemon=True
        ).start()

    @override
    def cancel(self) -> None:
        self._story.cancel(self._cancel)

    @override
    def leave(self) -> None:
        self._leaves = True
        self.cancel()

    @override
    def drain(self) -> None:
        if self.state.state == _S.STOPPED:
            message = (
                f"Job {self.submission.job_id!r} has not been started, so there is nothing to "
                "drain. To drain a run from its start, name it with --run_id and write a "
                "notification for that id to its --metadata_store."
            )
            raise IllegalTransition(message)
        if self.is_running and self.state.state != _S.CANCELLING:
            self._drain.request()
            if self._drain.signal.requested() is not None:
                self.drain_began()
            else:
                self.story.wait(_END_SECONDS)  # it was over when the request came

    @override
    def dry_run(self, seconds: float) -> DryRun:
        answer = self._drain.signal.inquiry.ask(seconds)
        found = None if isinstance(answer, str) else answer
        return DryRun(drain_progress.answer(answer), drain_progress.infos(found, 0))

    def _work(
        self, thread: str, collect: Callable[[], Sequence[Artifact]], clean_up: Callable[[], object]
    ) -> None:
        end: int = _S.FAILED
        try:
            with JobLogs(self.story.messages, thread):
                end = self._attempt(collect)
            clean_up()
        finally:
            self._close(cast("RunState", name(end)))
            # The engine may be faster than who tells of a drain, and another driver may cancel it.
            self._story.follow(end)

    def _close(self, state: RunState) -> None:
        if self._standby is None:
            self._drain.close(state)
            return
        is_stopped = state == "CANCELLED" and self._leaves
        told = "STOPPED" if is_stopped else cast("TermState", state)
        end = DriverEnd(told, self._cause, is_last=self._given_up is not None)
        self._drain.close(state, goes_on=self._standby.others_go_on(end))
        self._standby.close(end)

    def _attempt(self, collect: Callable[[], Sequence[Artifact]]) -> int:
        # BaseException: user code that runs here may call sys.exit; the job must still end.
        try:
            self.outcome = outcome = self._execute(collect())
            return _S.DRAINED if outcome.drained else _S.DONE
        except EndedElsewhere as end:
            return self._end_as(end)
        except BaseException as error:  # noqa: BLE001
            policy = self.submission.settings.drain_limit_policy
            if isinstance(error, DrainLimitExceeded) and policy == "cancel":
                self.give_up("cancel", str(error))
            if self._given_up is not None:
                return self._fail(DrainLimitExceeded(self._given_up))
            if self._cancel.is_cancelled():
                # Tasks that are torn down fail in many ways; now they are of little interest.
                if not isinstance(error, Cancelled):
                    text = f"While it was being cancelled: {error!r}"
                    self.message(_M.JOB_MESSAGE_DETAILED, text)
                return _S.CANCELLED
            return self._fail(error)

    def _end_as(self, end: EndedElsewhere) -> int:
        """The job has ended under another driver, and this one waited."""
        if end.state == "FAILED":
            return self._fail(end)
        self.story.messages.ended_elsewhere(str(end))
        return int(_S.Enum.Value(end.state))

    def _fail(self, error: BaseException) -> int:
        text = describe(error, f"{self.submission.name!r} ({self.submission.job_id})")
        self._cause = text.partition("\n")[0]
        self.story.messages.failed(type(error).__name__, text)
        return _S.FAILED

    def _execute(self, artifacts: Sequence[Artifact]) -> Outcome:
        with self._lock:
            if self._cancel.is_cancelled():
                raise Cancelled(self.submission.job_id)
        return self._engine.execute(
            Invocation(
                self.submission.job_id,
                self.submission.name,
                self.submission.pipeline,
                self.submission.settings,
                self.submission.options,
                artifacts,
                observer=self,
                cancel=self._cancel,
                drain=self._drain.signal,
                directory=self._directory,
                leadership=self._standby or Alone(),
                held=self._drain.held,
            )
        )

    @override
    def began(self, epoch: int) -> None:
        self._drain.begin(epoch)
        with self._lock:
            if self.state.state == _S.STARTING:
                self._story.move(_S.RUNNING)

    @override
    def message(self, importance: int, text: str) -> None:
        self.story.messages.message(importance, text)

    @override
    def counted(self, outcome: Outcome) -> None:
        self.outcome = outcome

    @override
    def counting(self, attempted: Callable[[], Sequence[metrics_pb2.MonitoringInfo]]) -> None:
        self._attempted = attempted

    @override
    def draining(self, progress: DrainProgress) -> None:
        before, self._progress = self._progress, progress
        known = DrainPhase.READING if before is None else before.phase
        if progress.phase is not known:
            self._drain.tell_phase(progress.phase)
        if (told := drain_progress.told(before, progress)) is not None:
            self._show(redact(told))

    @override
    def moved(self, text: str) -> None:
        self.message(_M.JOB_MESSAGE_BASIC, text)
        self._drain.tell_moved(text)

    @override
    def metrics(self) -> beam_job_api_pb2.MetricResults:
        own = drain_progress.infos(self._progress, self._drain.unreadable)
        if self._standby is not None:
            own += [
                monitoring_infos.int64_user_counter(_LEADING, name, count)
                for name, count in self._standby.metrics().items()
            ]
        outcome = self.outcome
        if outcome is None:
            return beam_job_api_pb2.MetricResults(
                attempted=[*self._attempted(), *own], committed=own
            )
        return beam_job_api_pb2.MetricResults(
            attempted=[*outcome.attempted, *own], committed=[*outcome.committed, *own]
        )

    @override
    def drain_began(self) -> None:
        with self._lock:
            if self.state.state in (_S.STARTING, _S.RUNNING):
                self._story.move(_S.DRAINING)

    @override
    def give_up(self, policy: Policy, text: str) -> None:
        if policy == "cancel":
            self.message(_M.JOB_MESSAGE_WARNING, text)
            self.cancel()
            return
        with self._lock:
            if not self._cancel.is_cancelled():
                self._given_up = text
        self._cancel.cancel()

    def _show(self, text: str) -> None:
        """Tell clients, and who looks at the terminal."""
        self.message(_M.JOB_MESSAGE_BASIC, text)
        if self.submission.settings.progress != "off":
            # Beside the lines that tell of rounds.
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()


def _standby_for(
    submission: Submission, tell: Callable[[str], object], warn: Callable[[str], object]
) -> Standby | None:
    """One of the drivers of the job, see ``Standby``; close it. None if the job has but one.

    Raises:
        BadSetup: the metadata store cannot be opened.
    """
    settings = submission.settings
    if not settings.standby:
        return None
    owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
    return Standby(
        STORES.open(settings.metadata_store),
        set_name(submission.name, redact(settings.checkpoint_dir)),
        owner,
        settings.standby_lease_ms / 1000,
        settings.recoveries,
        tell,
        warn,
    )
