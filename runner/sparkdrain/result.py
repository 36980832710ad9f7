"""What ``pipeline.run()`` returns: a job that can be waited for, drained, cancelled and asked."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from typing import TYPE_CHECKING, Any, Final, NoReturn

import grpc
from apache_beam.portability.api import beam_job_api_pb2
from apache_beam.runners.portability.portable_runner import (
    MESSAGE_LOG_LEVELS,
    PipelineResult,
    PortableMetrics,
)
from apache_beam.runners.runner import PipelineState

from sparkdrain.jobs.calls import LEAVE_KEY, raise_ours
from sparkdrain.jobs.failures import as_exception
from sparkdrain.jobs.messages import failure_kind, is_end_elsewhere, is_own_log_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from apache_beam.portability.api.beam_job_api_pb2_grpc import JobServiceStub

_LOGGER = logging.getLogger(__name__)

_CANCEL_SECONDS: Final = 30.0
_LAST_MESSAGES_SECONDS: Final = 10.0


class SparkDrainResult(PipelineResult):
    """One job. It is followed from the start, so nothing is lost if ``wait_until_finish`` is late.

    Messages of the job are logged as they come, except log records of this very process.
    """

    def __init__(
        self,
        job_service: JobServiceStub,
        job_id: str,
        messages: Any,
        states: Any,
        drain_on_signal: str = "none",
    ) -> None:
        super().__init__(job_service, job_id, messages, states)
        self._drain_on_signal = drain_on_signal
        self._failure: tuple[str, str] | None = None
        self._last_error = ""
        self._ended_well = False
        self._lost: Exception | None = None
        self._told = threading.Event()
        self._over = threading.Event()
        for follow in (self._follow_messages, self._follow_states):
            threading.Thread(target=follow, name=f"{follow.__name__} {job_id}", daemon=True).start()

    @property
    def job_id(self) -> str:
        """The id under which the job service knows the job."""
        return str(self._job_id)

    @property
    def state(self) -> str:
        """The job's state now, a name of ``PipelineState``.

        Raises:
            grpc.RpcError: the job service cannot be reached.
        """
        if self._has_ended:
            return str(self._state)
        # Not kept: only the state stream says in which order states came.
        request = beam_job_api_pb2.GetJobStateRequest(job_id=self._job_id)
        return str(
            self.runner_api_state_to_pipeline_state(self._job_service.GetState(request).state)
        )

    def wait_until_finish(self, duration: float | None = None) -> str:
        """Wait for the end of the job.

        Ctrl-C, or SIGTERM in a program that does not handle it, cancels the job and ends the wait
        with ``KeyboardInterrupt`` or ``SystemExit``. The signal that ``--drain_on_signal`` names
        drains the job, and the wait goes on; when it comes again, it does what it does else.

        Args:
            duration: at most so many milliseconds; no limit if not given.

        Returns:
            The state: DONE or DRAINED, or if ``duration`` is over, the state then. With
            ``--standby`` also CANCELLED, if the job was cancelled where it was led.

        Raises:
            RuntimeError: it did not end as one of these. Also of the type in ``sparkdrain.errors``
                that says why; the text begins with the user's own exception if there is one.
        """
        try:
            with _termination_as_exit(), _at_first(self._drain_on_signal, self._drain_beside):
                ended = self._over.wait(duration / 1000 if duration else None)
        except (KeyboardInterrupt, SystemExit):
            self._cancel_and_wait()
            raise
        if not ended:
            return self.state
        if self._state not in (PipelineState.DONE, PipelineState.DRAINED) and not self._ended_well:
            self._raise()
        return str(self._state)

    def cancel(self) -> None:
        """Ask the job to stop; ``wait_until_finish`` waits until it has."""
        if not self._has_ended:
            super().cancel()

    def drain(self) -> str:
        """Ask the job to end with nothing lost and nothing left inside.

        It stops to read; what it has read is processed, every window and timer fires, and it ends
        as DRAINED. A batch job reads everything all the same, and ends as DONE. Returns once the
        request is written down; ``wait_until_finish`` waits for the end.

        Returns:
            The state: DRAINING; or how the job has ended, if it has.

        Raises:
            RuntimeError: the job cannot be drained now; the text says why.
        """
        if self._has_ended:
            return str(self._state)
        request = beam_job_api_pb2.DrainJobRequest(job_id=self._job_id)
        try:
            state = self._job_service.Drain(request).state
        except grpc.RpcError as error:
            raise_ours(error)
        return str(self.runner_api_state_to_pipeline_state(state))

    def metrics(self) -> PortableMetrics:
        """The job's metrics.

        Attempted ones are there while the job runs, and after it has failed or was cancelled. A
        batch job has committed ones once it is done, a stream with each round.
        """
        request = beam_job_api_pb2.GetJobMetricsRequest(job_id=self._job_id)
        return PortableMetrics(self._job_service.GetJobMetrics(request))

    @property
    def _has_ended(self) -> bool:
        """Whether the end of the job came. A lost connection says nothing of the job."""
        return self._over.is_set() and self._lost is None

    def _raise(self) -> NoReturn:
        if self._lost is not None:
            message = f"The connection to the job service was lost; job {self._job_id} may go on."
            raise RuntimeError(message) from self._lost
        if self._failure is not None:
            raise as_exception(*self._failure)
        kind = "Cancelled" if self._state == PipelineState.CANCELLED else ""
        message = f"{self._last_error}\n\nJob {self._job_id} ended as {self._state}."
        raise as_exception(kind, message.strip())

    def _cancel_and_wait(self) -> None:
        if not self._over.is_set():
            _LOGGER.warning("Cancelling job %s.", self._job_id)
            with contextlib.suppress(grpc.RpcError):
                self._job_service.Cancel(
                    beam_job_api_pb2.CancelJobRequest(job_id=self._job_id),
                    metadata=((LEAVE_KEY, "1"),),
                )
            self._over.wait(_CANCEL_SECONDS)

    def _drain_beside(self) -> None:
        """Drain, from a handler of a signal: that must not wait for anything."""

        def drain() -> None:
            try:
                self.drain()
            except (RuntimeError, grpc.RpcError) as error:
                _LOGGER.error("Job %s cannot be drained: %s", self._job_id, error)

        threading.Thread(target=drain, name="drain", daemon=True).start()

    def _follow_messages(self) -> None:
        with contextlib.suppress(grpc.RpcError):
            for response in self._message_stream:
                if response.HasField("message_response"):
                    self._take(response.message_response)
        self._told.set()

    def _take(self, message: beam_job_api_pb2.JobMessage) -> None:
        kind = failure_kind(message)
        if kind is not None:
            self._failure = (kind, message.message_text)  # raised, so it need not be logged
        elif is_end_elsewhere(message):
            self._ended_well = True
            _LOGGER.info("%s", message.message_text)
        elif not is_own_log_record(message):
            logging.log(MESSAGE_LOG_LEVELS[message.importance], "%s", message.message_text)
            if message.importance == beam_job_api_pb2.JobMessage.JOB_MESSAGE_ERROR:
                self._last_error = message.message_text

    def _follow_states(self) -> None:
        try:
            for event in self._state_stream:
                self._state = self.runner_api_state_to_pipeline_state(event.state)
                _LOGGER.info("Job %s is %s.", self._job_id, self._state)
                if PipelineState.is_terminal(self._state):
                    break
        except grpc.RpcError as error:
            self._lost = error
        self._told.wait(_LAST_MESSAGES_SECONDS)
        self._over.set()


def _at_first(name: str, act: Callable[[], object]) -> AbstractContextManager[None]:
    """Call ``act`` at the first signal of that name, if it is one; the next does as before."""
    if name == "none" or threading.current_thread() is not threading.main_thread():
        return contextlib.nullcontext()
    number = signal.Signals[f"SIG{name}"]
    before = signal.getsignal(number)

    def handle(_number: int, _frame: object) -> None:
        signal.signal(number, before)
        act()

    return _handled(number, handle)


def _termination_as_exit() -> AbstractContextManager[None]:
    """Make SIGTERM an exception here, as Ctrl-C is one, unless the program has its own handler."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return contextlib.nullcontext()

    def leave(number: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    return _handled(signal.SIGTERM, leave)


@contextlib.contextmanager
def _handled(number: int, handle: Callable[[int, Any], object]) -> Iterator[None]:
    before = signal.signal(number, handle)
    try:
        yield
    finally:
        signal.signal(number, before)
