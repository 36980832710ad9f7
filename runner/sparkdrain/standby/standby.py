"""One of several drivers of a job: waits until it leads, and leads until another does."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from sparkdrain.coordination.fenced import FencedRecord
from sparkdrain.coordination.lease import StoredLease, seconds_that_pass
from sparkdrain.coordination.metadata import MetadataError
from sparkdrain.coordination.pulse import Pulse
from sparkdrain.english import counted
from sparkdrain.errors import Cancelled, CheckpointRefused, Fenced
from sparkdrain.standby import drivers
from sparkdrain.standby.drivers import TERMS, StandingDriver, Term, failed, following
from sparkdrain.standby.leadership import EndedElsewhere, Leadership, SteppedDown
from sparkdrain.types import CancelToken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sparkdrain.coordination.metadata import MetadataStore
    from sparkdrain.errors import SparkDrainError
    from sparkdrain.standby.drivers import TermState
    from sparkdrain.standby.leadership import Contender


_RECENT_SECONDS: Final = 600.0
_SILENT: Final = 0.5
"""Part of the lease's time: a leader that lives is mostly heard of sooner, see ``StoredLease``."""


@dataclass(frozen=True, slots=True)
class DriverEnd:
    """How a job has ended for one driver.

    Attributes:
        state: STOPPED if the driver was stopped and the job is to go on elsewhere; else how the job
            ended.
        cause: why it failed, for people; empty if it did not.
        is_last: whether no driver is to try again after a failure.
    """

    state: TermState
    cause: str = ""
    is_last: bool = False


class Standby(Leadership):
    """See ``Leadership``. The leader has a lease in a metadata store.

    While the store cannot be used, the leader goes on, because its claim of the checkpoints keeps
    all others from writing. After that, those who wait give it the time of a lease to be heard.

    Args:
        store: where the lease is; closed by ``close``.
        name: what all drivers of the job have in common, see ``set_name``.
        owner: names this driver, also for people; no other driver may have the same name.
        seconds: how long the others wait after they have heard of the leader last.
        recoveries: how often others try again after a leader has failed, without a new checkpoint.
        tell: takes what becomes of this driver, for people.
        warn: takes what the user should look at.
        clock: seconds that pass.
        now: microseconds since 1970.
    """

    def __init__(
        self,
        store: MetadataStore,
        name: str,
        owner: str,
        seconds: float,
        recoveries: int,
        tell: Callable[[str], object],
        warn: Callable[[str], object],
        clock: Callable[[], float] = seconds_that_pass,
        now: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self._store = store
        self._name = name
        self._owner = owner
        self._seconds = seconds
        self._recoveries = recoveries
        self._tell = tell
        self._warn = warn
        self._clock = clock
        self._now = now
        self._since = now()
        self._lease = StoredLease(store, name, owner, seconds, clock)
        self._record = FencedRecord(store, TERMS, name)
        self._lock = threading.Lock()
        # How the job ended before this driver was there: not what it is to end as.
        self._before: bytes | None = None
        self._contender: Contender | None = None
        self._pulse: Pulse | None = None
        self._term: Term | None = None
        self._token = 0
        self._life = CancelToken()
        self._deposed = ""
        self._fenced: list[float] = []
        self._told_leader = ""
        self._seen_epoch = 0
        self._outage: float | None = None
        self._beaten: float | None = None
        self._counts = {"terms": 0, "stepped_down": 0, "store_outages": 0}
        self._counts |= {"heartbeats": 0, "heartbeats_failed": 0}

    @property
    def leads(self) -> bool:
        """Whether this driver leads, as far as it knows."""
        return self._token > 0 and not self._deposed

    def metrics(self) -> dict[str, int]:
        """Counters of this driver, by name; ``leads`` is 1 while it leads."""
        return {"leads": int(self.leads), **self._counts}

    @override
    def wait(self, contender: Contender, cancel: CancelToken) -> None:
        self._step_aside()
        self._contender = contender
        grace = self._clock()
        while True:
            if cancel.is_cancelled():
                message = "the driver was stopped while it waited"
                raise Cancelled(message)
            contender.check()
            pause = self._seconds / 6
            if self._is_led():
                self._tell_leader()
                self._expect(contender, grace)
            elif not self._looks():
                grace = self._clock() + self._seconds
            elif self._clock() >= grace:
                pause = self._lease.step()
                if self._heard(self._lease.problem) and self._begins():
                    return
                self._tell_leader()
                self._expect(contender, grace)
            cancel.wait(pause)

    @override
    def took(self, epoch: int) -> None:
        with self._lock:
            self._write(epoch=epoch)

    @override
    @contextlib.contextmanager
    def lead(self, outer: CancelToken) -> Iterator[CancelToken]:
        with self._lock:
            life = self._life = CancelToken()
        outer.on_cancel(life.cancel)
        if self._deposed:
            life.cancel()
        try:
            yield life
        except Cancelled:
            if self._deposed and not outer.is_cancelled():
                raise SteppedDown(self._deposed) from None
            raise

    @override
    def check(self) -> None:
        if not self._deposed and self._lease.token() is None:
            self._depose("The lease of the leader was over before the job was taken up.")
        if self._deposed:
            raise SteppedDown(self._deposed)

    @override
    def goes_back(self, error: SparkDrainError) -> bool:
        if isinstance(error, SteppedDown) or self._deposed:
            return True
        if self._has_no_rival() and self._is_fenced_too_often():
            return False
        self._depose(f"It is not known who leads: {error}.")
        return True

    def others_go_on(self, end: DriverEnd) -> bool:
        """Whether drivers wait that are to go on with the job, if it ends so for this one."""
        term = self._ended(end)
        if not self.leads or term is None or term.is_end:
            return False
        now, patience = self._now(), 3e6 * self._seconds
        with contextlib.suppress(MetadataError, ValueError):
            others = drivers.known(self._store, self._name)
            return any(o.owner != self._owner and now - o.heard < patience for o in others)
        return False

    def close(self, end: DriverEnd) -> None:
        """The job has ended so for this driver; if it is to go on, another leads at once."""
        leads, term = self.leads, self._ended(end)
        if self._pulse is not None:
            self._pulse.close()
        if leads and term is not None:
            with self._lock:
                self._term = term
                if not self._write():
                    self._warn(
                        "The metadata store could not be told that this driver ended as "
                        f"{end.state}: another driver takes the job up."
                    )
        self._lease.resign()
        with contextlib.suppress(MetadataError, ValueError):
            drivers.forget(self._store, self._name, self._owner)
        self._store.close()

    def _ended(self, end: DriverEnd) -> Term | None:
        if self._term is None:
            return None
        if end.state != "FAILED":
            return dataclasses.replace(self._term, state=end.state)
        number = 0 if self._contender is None else self._contender.number
        allowed = 0 if end.is_last else self._recoveries
        return failed(self._term, number, end.cause, allowed)

    def _has_no_rival(self) -> bool:
        """Whether no driver that uses this store has led since this one does."""
        try:
            return self._record.read().token == self._token
        except MetadataError:
            return False  # `wait` finds out when the store can be used

    def _is_fenced_too_often(self) -> bool:
        """A driver that was paused may claim the checkpoints once, before it looks who leads."""
        now = self._clock()
        recent = [then for then in self._fenced if now - then < _RECENT_SECONDS]
        self._fenced = [*recent, now]
        return len(self._fenced) > self._recoveries

    def _step_aside(self) -> None:
        """Contend as everybody else does."""
        if self._pulse is not None:
            self._pulse.close()
        with self._lock:
            self._pulse = None
            self._token = 0
            self._deposed = self._told_leader = ""

    def _is_led(self) -> bool:
        """Whether another driver leads and nothing else is to be found out or told now.

        That is one request. What the leader has told is read once in the time of a lease, and
        before this driver tries to lead: a leader tells the end before it lets go of its lease.
        """
        if self._outage is not None or self._is_beat_due():
            return False
        try:
            return self._lease.is_others()
        except MetadataError as error:
            self._heard(str(error))
            return False

    def _looks(self) -> bool:
        """Whether the store can be used; raises if the job has ended there."""
        try:
            found = self._record.read()
            self._beat()
        except MetadataError as error:
            self._heard(str(error))
            return False
        was_away = self._outage is not None
        self._heard("")
        self._check_end(found.value)
        term = Term.decode(found.value)
        if term is not None and not term.is_end and term.epoch > self._seen_epoch:
            self._check_shared(term)
        return not was_away

    def _expect(self, contender: Contender, grace: float) -> None:
        """Tell whether the leader is silent, and not only because the store was away."""
        silence = min(self._lease.unheard, self._clock() + self._seconds - grace)
        is_silent = bool(self._lease.other) and silence > self._seconds * _SILENT
        contender.expect(is_next=self._outage is None and is_silent)

    def _check_end(self, value: bytes) -> None:
        term = Term.decode(value)
        if self._before is None:
            self._before = value if term is not None and term.is_end else b""
        if term is None or not term.is_end or value == self._before:
            return
        text = f"The job has ended as {term.state} under {term.owner}, and so does this driver."
        if term.state == "FAILED":
            text = (
                f"{term.cause}\n\nThe job failed under {term.owner}, and no other driver is to try "
                f"again: {counted(term.failures, 'failure')} in a row without a new checkpoint."
            )
        raise EndedElsewhere(term.state, text)

    def _check_shared(self, term: Term) -> None:
        """Make sure that the leader's checkpoints can be seen from here."""
        if self._contender is not None and not self._contender.shares(term.epoch):
            message = (
                f"{term.owner} has claimed the job's checkpoints under the epoch {term.epoch}, and "
                "--checkpoint_dir has no such claim here. It has to be the same folder for all "
                "drivers of a job: a shared file system, or an object store. If the folder was "
                "removed to begin the job anew, give it another --job_name."
            )
            raise CheckpointRefused(message)
        self._seen_epoch = term.epoch

    def _begins(self) -> bool:
        """Whether this driver leads now, and has told so."""
        token = self._lease.token()
        if token is None:
            return False
        try:
            found = self._record.claim(token)
            self._check_end(found.value)
            before = Term.decode(found.value)
            term = following(before, self._owner, self._now())
            with self._lock:
                self._record.write(found, token, term.encode())
                self._term, self._token = term, token
        except Fenced:
            return False
        except MetadataError as error:
            self._heard(str(error))
            return False
        except EndedElsewhere:
            self._lease.resign()
            raise
        self._counts["terms"] += 1
        self._pulse = Pulse(f"standby-{self._name}", self._renew)
        self._pulse.start()
        is_loss = before is not None and before.state in ("LEADING", "FAILED")
        (self._warn if is_loss else self._tell)(self._why_it_leads(before))
        if before is not None and not before.is_end and before.epoch > self._seen_epoch:
            self._check_shared(before)
        return True

    def _why_it_leads(self, before: Term | None) -> str:
        text = f"{self._owner} leads the job from now on"
        if before is None or before.is_end:
            return f"{text}."
        if before.state == "FAILED":
            return f"{text}: {before.owner} has failed. {before.cause}"
        if before.state == "STOPPED":
            return f"{text}: {before.owner} was stopped."
        unheard = self._lease.unheard
        if before.owner == self._owner or not unheard:
            return f"{text}. The last leader was {before.owner}."
        return f"{text}: {before.owner} was not heard of for {unheard:.1f} s."

    def _tell_leader(self) -> None:
        other = self._lease.other
        if other and other != self._told_leader:
            self._told_leader = other
            self._tell(
                f"{self._owner} waits: {other} leads the job. It is taken over "
                f"{self._seconds:g} s after {other} was heard of last."
            )

    def _renew(self) -> float:
        """A step of the leader."""
        if self._deposed:
            return self._seconds
        pause = self._lease.step()
        if not self._heard(self._lease.problem):
            return pause
        token = self._lease.token()
        try:
            if token is None:
                self._check_other()
            elif token != self._token:
                self._lead_again(token)
            self._beat()
        except Fenced as error:
            self._depose(str(error))
        except MetadataError as error:
            self._heard(str(error))
        return pause

    def _check_other(self) -> None:
        if other := self._lease.other:
            self._depose(
                f"{other} leads the job: this driver was not heard of for {self._seconds:g} s, "
                "because it was stopped or could not reach the metadata store."
            )

    def _lead_again(self, token: int) -> None:
        """Go on under a new token, unless another driver has led since this lease was over."""
        with self._lock:
            found = self._record.read()
            if found.token not in {self._token, token}:
                message = "Another driver has led the job since this one was heard of last."
                raise Fenced(message)
            assert self._term is not None
            self._record.write(found, token, self._term.encode())
            self._token = token

    def _write(self, *, epoch: int | None = None) -> bool:
        """Whether the term is told; the lock is held. What a newer leader has told stays."""
        assert self._term is not None
        if epoch is not None:
            self._term = dataclasses.replace(self._term, epoch=epoch)
        try:
            found = self._record.claim(self._token)
            self._record.write(found, self._token, self._term.encode())
        except Fenced:
            return True
        except (MetadataError, ValueError):
            return False
        return True

    def _depose(self, why: str) -> None:
        with self._lock:
            if self._deposed:
                return
            self._deposed, life = why, self._life
        self._counts["stepped_down"] += 1
        self._warn(f"{why} This driver stops working on the job, and waits.")
        life.cancel()

    def _heard(self, problem: str) -> bool:
        """Whether the store could be used; tells when that changes."""
        if problem and self._outage is None:
            self._outage = self._clock()
            self._counts["store_outages"] += 1
            does = (
                "The job goes on: its checkpoints are still this driver's. Requests to drain it "
                "are not heard."
                if self.leads
                else "This driver waits until the store can be used."
            )
            self._warn(f"Who leads the job cannot be looked up. {does} {problem}")
        elif not problem and self._outage is not None:
            away = self._clock() - self._outage
            self._outage = None
            self._tell(f"The metadata store can be used again, after {away:.1f} s.")
        return not problem

    def _beat(self) -> None:
        """Tell that this driver is there, once in the time of a lease."""
        if not self._is_beat_due():
            return
        now = self._clock()
        if self._beaten is None:
            drivers.forget_dead(self._store, self._name, self._now())
        driver = StandingDriver(self._owner, self._since, self._now())
        try:
            drivers.tell(self._store, self._name, driver)
        except MetadataError:
            self._counts["heartbeats_failed"] += 1
            raise
        self._counts["heartbeats"] += 1
        self._beaten = now

    def _is_beat_due(self) -> bool:
        return self._beaten is None or self._clock() - self._beaten >= self._seconds
