"""One process of a group: a candidate for its leadership, and a member, also while it leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkdrain.coordination.lease import seconds_that_pass
from sparkdrain.coordination.metadata import MetadataError
from sparkdrain.errors import Fenced

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.coordination.election import Election
    from sparkdrain.coordination.group_leader import GroupLeader
    from sparkdrain.coordination.group_member import GroupMember


class GroupProcess:
    """Takes the steps of an election, of a leader and of a member when they are due.

    Args:
        election: of the group's leader.
        leader: leads while this process is elected.
        member: works.
        clock: seconds that pass on this machine.
    """

    def __init__(
        self,
        election: Election,
        leader: GroupLeader,
        member: GroupMember,
        clock: Callable[[], float] = seconds_that_pass,
    ) -> None:
        self._election = election
        self._leader = leader
        self._member = member
        self._clock = clock
        self._due = [0.0, 0.0]
        self._problem = ""

    @property
    def problem(self) -> str:
        """Why the last steps could not use the store; empty if they could."""
        return self._election.problem or self._member.problem or self._problem

    def step(self) -> float:
        """Do what is due. Returns the seconds until something is due again."""
        for part, step in enumerate((self._election.step, self._work)):
            if self._clock() >= self._due[part]:
                self._due[part] = self._clock() + step()
        return max(0.0, min(self._due) - self._clock())

    def leave(self) -> None:
        """Work and lead no more, and tell so."""
        self._member.leave()
        self._election.resign()

    def _work(self) -> float:
        pause = self._member.step()
        token = self._election.token()
        if token is not None:
            try:
                self._leader.step(token)
                self._problem = ""
            except Fenced:
                pass  # the next step tells whether another process leads
            except (MetadataError, ValueError) as error:
                self._problem = str(error)
        return pause
