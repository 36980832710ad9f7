"""Leader election: of all processes that want to lead, the one that has a lease leads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sparkdrain.coordination.metadata import MetadataError

if TYPE_CHECKING:
    from sparkdrain.coordination.lease import StoredLease

_RENEWALS: Final = 4
"""How often a leader renews its lease in the time of the lease."""
_LOOKS: Final = 6
"""How often another candidate looks at it in that time."""


class Election:
    """One candidate in an election. One thread calls its methods.

    It leads while it has the lease. All that it writes as the leader has to carry the lease's
    token. A dead leader is followed within the time of the lease and two looks. A leader that
    resigns is followed at the next look. A store that is down costs the leader nothing before its
    lease ends.

    Args:
        lease: which the leader has.
    """

    def __init__(self, lease: StoredLease) -> None:
        self._lease = lease
        self._is_over = False
        self._problem = ""

    @property
    def problem(self) -> str:
        """Why the last step could not use the store; empty if it could."""
        return self._problem

    def step(self) -> float:
        """Renew the lease, or try to get it.

        Returns:
            Seconds until the next step is due.
        """
        if not self._is_over:
            try:
                if self._lease.token() is None:
                    self._lease.acquire()
                else:
                    self._lease.renew()
                self._problem = ""
            except MetadataError as error:
                self._problem = str(error)
        is_settled = self._lease.token() is not None and not self._problem
        return self._lease.seconds / (_RENEWALS if is_settled else _LOOKS)

    def resign(self) -> None:
        """Be no candidate any more, and let another lead at once.

        A store that is down does not hear of it; then another leads when the lease is over.
        """
        self._is_over = True
        try:
            self._lease.release()
        except MetadataError as error:
            self._problem = str(error)
