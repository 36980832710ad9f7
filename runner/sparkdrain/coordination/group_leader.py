"""What the leader of a group does: it publishes versions of the model, and ends their barriers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sparkdrain.coordination.assignment import assign
from sparkdrain.coordination.barrier import (
    Absences,
    BarrierPhase,
    GroupModel,
    can_end,
    ended,
    following,
    is_hopeless,
    timed_out,
    who_may_join,
)
from sparkdrain.coordination.debounce import Debounce
from sparkdrain.coordination.fenced import FencedRecord
from sparkdrain.coordination.lease import seconds_that_pass
from sparkdrain.coordination.locality import LastHome, Locality
from sparkdrain.coordination.membership import Members

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sparkdrain.coordination.fenced import FencedValue
    from sparkdrain.coordination.membership import SeenMember
    from sparkdrain.coordination.metadata import MetadataStore

GROUPS: Final = "sparkdrain-groups-v1"
"""The namespace of models, by the name of the group."""


class GroupLeader:
    """Leads a group while its process leads.

    What a leader knows is in the store. So a leader that dies, at whatever step, is followed by one
    that ends the version that has started, or replaces it.

    Args:
        store: where the group is.
        group: its name.
        slots: how many slots the group has.
        seconds: after which a silent member has stopped by itself.
        settle: how long members have to be the same ones before a new version starts, in seconds.
        timeout: how long members may take to join a version, in seconds.
        clock: seconds that pass on this machine.
    """

    def __init__(
        self,
        store: MetadataStore,
        group: str,
        slots: int,
        *,
        seconds: float,
        settle: float,
        timeout: float,
        clock: Callable[[], float] = seconds_that_pass,
    ) -> None:
        self._record = FencedRecord(store, GROUPS, group)
        self._members = Members(store, group, clock)
        self._locality = Locality(store, group)
        self._slots = slots
        self._seconds = seconds
        self._settled: Debounce[Mapping[str, str]] = Debounce(settle)
        self._timeout = timeout
        self._clock = clock
        self._absences = Absences()
        self._begun: tuple[int, int, float] | None = None

    def step(self, token: int) -> GroupModel:
        """Look at all members, and do the next thing that is to be done.

        Args:
            token: of this leader.

        Returns:
            The model as it is now.

        Raises:
            Fenced: a newer leader has written, or an earlier write of this one has only now been
                done; another step tells.
            StoreDown: the store cannot be used now; another step does what was to be done.
        """
        # Members are read after the model: whoever works by an older one has told so by then.
        found = self._record.claim(token)
        model = GroupModel.decode(found.value)
        members = self._members.look()
        now = self._clock()
        self._absences.look(model, members, now)
        wanted = who_may_join(model, members, now)
        is_settled = self._settled.is_settled(wanted, now)
        after = model
        if model.phase is BarrierPhase.START:
            if can_end(model, members, self._absences, now, self._seconds):
                after = ended(model)
            elif is_hopeless(model, members, now) or self._is_over_time(token, model, now):
                after = timed_out(model)
        elif wanted and is_settled and self._is_new(model, wanted):
            after = following(model, wanted, self._homes(model, wanted, members))
        elif model.phase is BarrierPhase.END:
            self._clean(model, members, now)
        return model if after is model else self._write(found, token, after)

    def _write(self, found: FencedValue, token: int, model: GroupModel) -> GroupModel:
        self._record.write(found, token, model.encode())
        return model

    def _is_new(self, model: GroupModel, wanted: Mapping[str, str]) -> bool:
        is_other = dict(model.members) != dict(wanted)
        return model.phase is BarrierPhase.TIMEOUT or is_other or len(model.homes) != self._slots

    def _is_over_time(self, token: int, model: GroupModel, now: float) -> bool:
        """Whether this leader has seen the version wait for too long."""
        if self._begun is None or self._begun[:2] != (token, model.version):
            self._begun = (token, model.version, now)
        return now >= self._begun[2] + self._timeout

    def _homes(
        self,
        model: GroupModel,
        wanted: Mapping[str, str],
        members: Mapping[str, SeenMember],
    ) -> Mapping[int, str]:
        homes = {name: LastHome(members[name].record.location, name) for name in wanted}
        decided = {slot: homes[name] for slot, name in model.homes.items() if name in homes}
        last = decided | self._locality.last()
        placed = assign(range(self._slots), last, homes.values())
        return {slot: home.name for slot, home in placed.items()}

    def _clean(self, model: GroupModel, members: Mapping[str, SeenMember], now: float) -> None:
        """Remove one record of a member that is gone, and that no version names."""
        for name, member in members.items():
            if not member.is_there(now) and not model.has(name, member.record.life):
                self._members.remove(member)
                return


def read_model(store: MetadataStore, group: str) -> GroupModel:
    """The model of a group.

    Raises:
        StoreDown: the store cannot be used now.
        ValueError: what is there is no model.
    """
    return GroupModel.decode(FencedRecord(store, GROUPS, group).read().value)
