"""Writing exactly once: which entries of an outbox are to be published, and whether at all.

Records for Kafka become numbered entries in the state of the job. Once a checkpoint covers them
they are published in a transaction, which also records, as an offset of a group, the number that
comes next. So the brokers know how far it went, whoever crashed when; nobody else has to.

This is the core alone: it reads and writes nothing but by ``Transactions``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass(frozen=True, slots=True)
class Outbox:
    """The entries of one key group of a sink; part of its state, committed round by round.

    Attributes:
        first: number of the first entry that is kept; all before were published.
        next: number of the next entry.
    """

    first: int = 0
    next: int = 0

    def __post_init__(self) -> None:
        """Entries are numbered without gaps."""
        assert 0 <= self.first <= self.next, self

    def added(self, count: int) -> tuple[Outbox, range]:
        """The outbox with so many more entries, and their numbers."""
        after = self.next + count
        return Outbox(self.first, after), range(self.next, after)

    def without(self, published: int) -> tuple[Outbox, range]:
        """The outbox without entries before ``published``, and the numbers of those to delete.

        Args:
            published: number that follows the last published entry, as ``publish`` told it. It
                may be less than ``first``: then that was heard of before.
        """
        first = max(self.first, min(published, self.next))
        return Outbox(first, self.next), range(self.first, first)


class Older(enum.Enum):
    """What to do if the brokers have more than the checkpoint that the job goes on from."""

    REFUSE = "refuse"
    """Nothing: somebody has to decide."""
    SKIP = "skip"
    """Not to publish again as many as there are: right if they are made again just the same."""


class Verdict(enum.Enum):
    """Why nothing may be published."""

    OLDER = "older"
    """More was published than the checkpoint knows of: the job goes on from an older one, or
    this is a driver or slot that was replaced."""
    GAP = "gap"
    """Entries are gone that were not published: the record is of another job, or was reset."""
    FORGOTTEN = "forgotten"
    """Entries were published before, and yet the brokers have no record of it."""


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish these entries, and record what comes next, in one transaction.

    Attributes:
        entries: their numbers; if there are none, there is nothing to do.
        record: the number to record.
    """

    entries: range
    record: int


def decide(covered: Outbox, recorded: int | None, older: Older = Older.REFUSE) -> Publish | Verdict:
    """What to publish.

    Args:
        covered: the outbox as it is in a published checkpoint. Entries that were added since are
            none of our business: after a crash there might be others in their place.
        recorded: number that follows the last published entry according to the brokers; None if
            they have no record.
        older: what to do if that is more than the checkpoint has.

    Returns:
        What to publish, or why nothing may be.
    """
    if recorded is None:
        if covered.first > 0:
            return Verdict.FORGOTTEN
        recorded = 0
    if recorded < covered.first:
        return Verdict.GAP
    if recorded > covered.next:
        if older is Older.REFUSE:
            return Verdict.OLDER
        return Publish(range(covered.next, covered.next), recorded)
    return Publish(range(recorded, covered.next), covered.next)


class Transactions(Protocol):
    """Of one ``transactional.id``: that of a key group of a sink of a job."""

    def fence(self) -> None:
        """End what anybody else with this id has begun, and whatever they try from now on."""

    def recorded(self) -> int | None:
        """The number that was recorded last by a transaction that was committed, if any was."""

    def begin(self) -> None:
        """Begin a transaction."""

    def send(self, entry: Any) -> None:
        """Send an entry within the transaction."""

    def record(self, number: int) -> None:
        """Record a number within the transaction."""

    def commit(self) -> None:
        """Make all of it visible, or none: raises if somebody has fenced us."""


def publish(
    covered: Outbox,
    entries: Callable[[range], Iterable[Any]],
    transactions: Transactions,
    older: Older = Older.REFUSE,
) -> int | Verdict:
    """Publish what a checkpoint covers, unless it is published already.

    The record is read after the fence: whoever was before us can change it no more.

    Args:
        covered: the outbox in the checkpoint.
        entries: gets them by their numbers, in that order.
        transactions: to publish by.
        older: see ``decide``.

    Returns:
        The number that follows the last published entry, for ``Outbox.without``; or why nothing
        was published.
    """
    transactions.fence()
    decision = decide(covered, transactions.recorded(), older)
    if isinstance(decision, Verdict):
        return decision
    if decision.entries:
        transactions.begin()
        for entry in entries(decision.entries):
            transactions.send(entry)
        transactions.record(decision.record)
        transactions.commit()
    return decision.record
