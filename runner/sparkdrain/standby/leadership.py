"""What an engine needs to know of who leads its job, and of jobs that can have many drivers."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

from typing_extensions import override

from sparkdrain.coordination.backend import StoreReach
from sparkdrain.errors import BadOption, SparkDrainError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from sparkdrain.standby.drivers import TermState
    from sparkdrain.types import CancelToken


class SteppedDown(SparkDrainError):
    """Another driver leads the job: this one has stopped working on it."""


class EndedElsewhere(SparkDrainError):
    """The job has ended under another driver, while this one waited.

    Attributes:
        state: how it ended: DONE, DRAINED, CANCELLED or FAILED.
    """

    def __init__(self, state: TermState, text: str) -> None:
        super().__init__(text)
        self.state: TermState = state


class Contender(Protocol):
    """A driver that is ready to run the job."""

    @property
    def number(self) -> int:
        """Number of the newest checkpoint that this driver knows of; 0 if it knows none."""

    def check(self) -> None:
        """Return if this driver could take the job up now.

        Raises:
            SparkDrainError: it could not; says why.
        """

    def shares(self, epoch: int) -> bool:
        """Whether a claim of the job with this epoch, or a later one, can be seen from here."""

    def expect(self, *, is_next: bool) -> None:
        """Get ready, or stop that: the leader is silent, or not any more. Called at each look.

        Args:
            is_next: whether the leader is silent for so long that this driver may lead soon.
        """


class Leadership(Protocol):
    """Which of several drivers runs a job.

    It only decides who tries. A driver that does not know yet that another leads is kept from
    writing by the claims of the job's checkpoints.
    """

    def wait(self, contender: Contender, cancel: CancelToken) -> None:
        """Return when this driver leads.

        Raises:
            EndedElsewhere: the job has ended under another driver meanwhile.
            Cancelled: ``cancel`` was called.
            SparkDrainError: see ``Contender.check``.
        """

    def check(self) -> None:
        """Call this before the job's checkpoints are claimed: a claim takes them from who leads.

        Raises:
            SteppedDown: it is not sure that this driver leads.
        """

    def took(self, epoch: int) -> None:
        """This driver has claimed the job's checkpoints under that epoch."""

    def lead(self, outer: CancelToken) -> AbstractContextManager[CancelToken]:
        """A life of the job, which ends when another driver leads.

        Args:
            outer: ends the life for other reasons.

        Returns:
            What ends the life for either reason. The context raises ``SteppedDown`` in place of
            ``Cancelled`` if another driver leads.
        """

    def goes_back(self, error: SparkDrainError) -> bool:
        """Whether this driver is to wait again, after the job was taken from it.

        Args:
            error: ``SteppedDown``, or ``Fenced`` by a later claim of the checkpoints.
        """


class Alone(Leadership):
    """The leadership of a job with one driver, which leads from the start."""

    @override
    def wait(self, contender: Contender, cancel: CancelToken) -> None:
        """Return at once: no other driver wants the job."""

    @override
    def check(self) -> None:
        """Return at once: no other driver leads."""

    @override
    def took(self, epoch: int) -> None:
        """Do nothing: no other driver asks for the epoch."""

    @override
    @contextlib.contextmanager
    def lead(self, outer: CancelToken) -> Iterator[CancelToken]:
        yield outer

    @override
    def goes_back(self, error: SparkDrainError) -> bool:
        return False


def check_reach(reach: StoreReach, master: str | None) -> None:
    """Return if drivers that can run the job can all open its metadata store.

    Drivers of a local master may be on one machine: then they guard against the loss of a process.
    Drivers for a cluster are there for the loss of a machine.

    Args:
        reach: which drivers can open the store.
        master: Spark's master; None if it is not known yet.

    Raises:
        BadOption: the store cannot be opened by other drivers; names those that can.
    """
    wide = "zookeeper:, kafka: or azure:, or file: on NFS"
    if reach is StoreReach.PROCESS:
        message = (
            "--standby needs a metadata store that other drivers can open, and the one of this job "
            f"is in this process only. Give --metadata_store: {wide}; for drivers on one machine, "
            "file:/path."
        )
        raise BadOption(message)
    if reach is StoreReach.MACHINE and master is not None and not master.startswith("local"):
        message = (
            "--standby needs a metadata store that other machines can open, because the drivers of "
            f"{master} are to survive the loss of a machine, and --metadata_store is on this one "
            f"only. Give {wide}. On one machine, a local master may do with file:/path."
        )
        raise BadOption(message)


def check_signal(drain_on_signal: str) -> None:
    """Return if a signal stops one driver only.

    Raises:
        BadOption: it drains the job.
    """
    if drain_on_signal != "none":
        message = (
            f"--drain_on_signal={drain_on_signal} cannot be used with --standby: a signal stops "
            "one driver, and another goes on with the job. To drain it, use sparkdrain drain."
        )
        raise BadOption(message)
