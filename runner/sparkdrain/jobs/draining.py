"""The drain of one job: who may ask for it, how long it takes, what is written down about it."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Protocol, cast

from apache_beam.portability.api import beam_job_api_pb2

from sparkdrain.coordination.address import beside
from sparkdrain.coordination.metadata import MetadataError, pass_over
from sparkdrain.coordination.stores import STORES
from sparkdrain.drain import records, runs
from sparkdrain.drain.limits import LimitKind, Limits
from sparkdrain.drain.monitor import Deadline, DrainMonitor
from sparkdrain.drain.notification import DrainNotification
from sparkdrain.drain.runs import GOOD_ENDS, DrainDisabled, NoSuchRun, Run
from sparkdrain.drain.signal import DrainSignal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sparkdrain.coordination.metadata import MetadataStore
    from sparkdrain.drain.limits import Policy
    from sparkdrain.drain.phases import DrainPhase
    from sparkdrain.drain.runs import RunState
    from sparkdrain.options import JobSettings

_M = beam_job_api_pb2.JobMessage


class Drained(Protocol):
    """What a drain needs of its job."""

    def message(self, importance: int, text: str) -> None:
        """Send a text to the clients that follow the job."""

    def drain_began(self) -> None:
        """The job is being drained from now on, if it is not over."""

    def give_up(self, policy: Policy, text: str) -> None:
        """End the job as the policy says, because its drain takes too long."""


@dataclass(slots=True)
class _Open:
    """What a started job holds; it has a monitor from its begin on, if it may be drained."""

    store: MetadataStore
    monitor: DrainMonitor | None = None
    has_begun: bool = False


class JobDrain:
    """Listens for the request to drain one job, and sees to what it leaves in the store.

    Whichever way a request comes, by ``request`` or by a record in the store, it does the same:
    it is written down first, then the engine is signalled; the first one counts. Thread-safe.

    The store stays as it is until ``begin``: a job that is refused may have the name, the
    checkpoints or the run id of a job that runs.

    Attributes:
        held: the highest epoch under which a run has held the job's checkpoints, as the store knew
            when the job was opened; 0 if none has.
    """

    def __init__(
        self,
        run: Run,
        settings: JobSettings,
        job: Drained,
        now: Callable[[], int],
    ) -> None:
        """Prepare; nothing is opened.

        Args:
            now: microseconds since 1970.
        """
        self.signal = DrainSignal()
        self.held = 0
        self._run = run
        self._settings = settings
        self._job = job
        self._now = now
        self._address = settings.metadata_store
        self._interval = settings.drain_poll_ms / 1000
        self._lock = threading.Lock()
        self._open: _Open | None = None
        self._is_asked = False
        self._has_begun_or_ended = threading.Event()
        self._limits = Limits.in_options(settings)
        self._deadline = Deadline(self._limits, self._exceeded)
        self.signal.on_request(self._began)

    @property
    def run_id(self) -> str:
        """Names the run in notifications; known for good when ``begin`` has returned."""
        return self._run.run_id

    @property
    def unreadable(self) -> int:
        """How many records among the notifications cannot be read."""
        opened = self._open
        return 0 if opened is None or opened.monitor is None else opened.monitor.unreadable

    def open(self) -> None:
        """Open the store and look whether the run may begin; writes nothing.

        Raises:
            BadSetup: the store cannot be opened; says why.
            BadOption: the run id cannot be used.
            RunTaken: the run id is that of a run that has ended well.
            DrainDisabled: the run was told to drain, and must not.
            MetadataError: the store cannot be used.
        """
        group = self._settings.checkpoint_access == "group"
        complaints = STORES.prepare(self._address, group=group)
        # A store beside checkpoints is told of with these.
        if self._address != beside(self._settings.checkpoint_dir):
            for complaint in complaints:
                self._job.message(_M.JOB_MESSAGE_WARNING, complaint)
        store = STORES.open(self._address)
        try:
            run = self._in(store)
            if not self._settings.standby:  # else it ends as that run did, and needs no other id
                runs.check(store, run)
            self._check_not_asked(store, run)
            self.held = runs.held(store, self._run)
        except BaseException:
            store.close()
            raise
        with self._lock:
            self._open = _Open(store)

    def begin(self, epoch: int) -> None:
        """Tell the store of the run, and listen; the engine has read nothing.

        The engine calls this when nothing can refuse the job any more, and again each time it
        takes the job's checkpoints anew.

        Args:
            epoch: the epoch of the lease on the job's checkpoints; 0 if the job makes none.

        Raises:
            Fenced: another driver has taken the checkpoints.
            MetadataError: the store cannot be used at the first call. Later ones only warn.
            RunTaken, DrainDisabled: see ``open``; this came about since.
        """
        opened = self._open
        assert opened is not None, "open first"
        if opened.has_begun:
            state: RunState = "RUNNING" if self.signal.requested() is None else "DRAINING"
            with self._lock, self._warning("told it that the run goes on"):
                self._run = dataclasses.replace(self._run, state=state, epoch=epoch)
                runs.begin(opened.store, self._run)
            return
        run = dataclasses.replace(self._in(opened.store), epoch=epoch)
        self._check_not_asked(opened.store, run)
        if not epoch and (other := runs.check(opened.store, run)) is not None:
            self._warn_of(other)
        runs.begin(opened.store, run)
        self._expire(opened.store, run)
        with self._lock:
            self._run = run
            opened.has_begun = True
            if self._settings.drain:
                opened.monitor = DrainMonitor(opened.store, self.run_id, self._interval)
        if opened.monitor is not None:
            opened.monitor.on_drain(self.signal.request)
            opened.monitor.start()
        self._has_begun_or_ended.set()
        if self._is_asked:  # by a caller who waits: before the engine reads anything
            self.request()

    def request(self) -> None:
        """Ask the job to drain; returns when that is written down. A second call does nothing.

        Waits for a job that starts: before it has begun, its run may belong to another job.

        Raises:
            DrainDisabled: the job was started with ``--drain=off``.
            StoreDown: the request could not be written down, and has no effect.
        """
        if not self._settings.drain:
            message = f"The run {self.run_id!r} cannot be drained: it was started with --drain=off."
            raise DrainDisabled(message)
        self._is_asked = True
        if self._settings.standby and self._ask_leader():
            return
        self._has_begun_or_ended.wait()
        with self._lock:
            if self._open is None or self.signal.requested() is not None:
                return
            notification = DrainNotification.create(self.run_id, self._now())
            records.write(self._open.store, notification)
        self.signal.request(notification)

    def _ask_leader(self) -> bool:
        """Whether another driver leads the run, which hears of the request from the store."""
        with self._lock:
            opened = self._open
            if opened is None or opened.has_begun:
                return False
            try:
                run_id = self._in(opened.store).run_id
                return runs.request(opened.store, run_id, self._now())[1] is not None
            except NoSuchRun:
                return False

    def tell_phase(self, phase: DrainPhase) -> None:
        """Tell the store how far the drain has come."""
        with self._lock, self._warning(f"told it that the drain is in the phase {phase.name}"):
            self._run = dataclasses.replace(self._run, phase=phase.name)
            if self._open is not None:
                runs.tell(self._open.store, self._run, "DRAINING", phase)

    def tell_moved(self, text: str) -> None:
        """Tell the store that slots of the run have moved, and why."""
        when = datetime.fromtimestamp(self._now() / 1e6, timezone.utc)
        line = f"{when:%Y-%m-%d %H:%M:%S} UTC {text}"
        with self._lock, self._warning("told it that slots have moved"):
            if self._open is not None:
                runs.moved(self._open.store, self._run, line)

    def close(self, state: RunState, *, goes_on: bool = False) -> None:
        """Stop listening to requests, and tell the store in which state the job has ended.

        Args:
            goes_on: whether another driver goes on with the run, so that it has not ended.

        A job that never began changes nothing. Only after a good end the requests are removed: a
        run that failed or was cancelled may be taken up again, and is to be drained then.
        """
        self._deadline.stop()
        with self._lock:
            opened, self._open = self._open, None
        self._has_begun_or_ended.set()
        if opened is None:
            return
        if opened.monitor is not None:
            opened.monitor.stop()
        if opened.has_begun and not goes_on:
            self._tell_end(opened.store, state)
        opened.store.close()

    def _tell_end(self, store: MetadataStore, state: RunState) -> None:
        # A run that was taken up under another id was asked under the one that it had.
        requested = self.signal.requested()
        for run_id in {self.run_id, self.run_id if requested is None else requested.run_id}:
            run = dataclasses.replace(self._run, run_id=run_id)
            with self._warning("removed from it what asked for the drain"):
                if state in GOOD_ENDS and runs.belongs_to(store, run):
                    records.clean_up(store, run_id)
            with self._warning(f"told it that the run ended as {state}"):
                runs.tell(store, run, state)

    def _in(self, store: MetadataStore) -> Run:
        """The run, under the id that it has as the store is now."""
        settings = self._settings
        takes_up = (settings.resume or settings.standby) and not settings.run_id
        return runs.resumed(store, self._run) if takes_up else self._run

    def _expire(self, store: MetadataStore, run: Run) -> None:
        with self._warning("removed old requests to drain from it"):
            for gone in records.expire(store, run.run_id, self._now()):
                text = (
                    f"The request of {gone.time.isoformat()} to drain the run {gone.run_id!r} has "
                    f"expired after {records.EXPIRY.days} days, and was removed from the metadata "
                    "store. If that run is taken up again, and is to be drained, ask again."
                )
                self._job.message(_M.JOB_MESSAGE_BASIC, text)

    def _warn_of(self, other: Run) -> None:
        text = (
            f"The metadata store knows the run {other.run_id!r} of the job {other.job_id} as "
            f"{other.state}, and this job takes the run id over. If that job still runs, a "
            "request to drain the run may drain both; give each job a --run_id of its own."
        )
        self._job.message(_M.JOB_MESSAGE_WARNING, text)

    def _check_not_asked(self, store: MetadataStore, run: Run) -> None:
        if self._settings.drain:
            return
        asked = records.first_for(run.run_id, records.read(store, pass_over))
        if asked is not None:
            message = (
                f"The run {run.run_id!r} was asked to drain at {asked.time.isoformat()} "
                f"(notification {asked.id}), but --drain=off. Leave the option out to drain it."
            )
            raise DrainDisabled(message)

    def _began(self) -> None:
        notification = cast("DrainNotification", self.signal.requested())
        text = (
            f"The run {self.run_id!r} is drained, as was asked at {notification.time.isoformat()} "
            f"(notification {notification.id})."
        )
        self._job.message(_M.JOB_MESSAGE_BASIC, text)
        self._job.drain_began()
        self._deadline.start(self._taken(notification))
        with self._lock, self._warning("told it that the run drains"):
            if self._open is not None:
                runs.tell(self._open.store, self._run, "DRAINING")

    def _taken(self, notification: DrainNotification) -> float:
        """How many seconds ago a life of the run first heard of the request to drain."""
        now = self._now()
        heard = now
        with self._lock, self._warning("told it when the drain began"):
            if self._open is not None:
                heard = records.first_heard(self._open.store, notification, now)
        return (now - heard) / 1e6

    def _exceeded(self, taken: float) -> None:
        text = self._limits.told(LimitKind.DRAIN, f"The run {self.run_id!r}", taken)
        if self._limits.policy == "wait":
            self._job.message(_M.JOB_MESSAGE_WARNING, text)
        else:
            self._job.give_up(self._limits.policy, text)

    @contextlib.contextmanager
    def _warning(self, what: str) -> Iterator[None]:
        # The job itself is as good as it was: a store that is down must not fail it.
        try:
            yield
        except (MetadataError, ValueError) as error:
            text = f"The metadata store does not answer; the driver has not {what}. {error}"
            self._job.message(_M.JOB_MESSAGE_WARNING, text)
