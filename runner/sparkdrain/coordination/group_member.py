"""What a member of a group does: it tells that it lives, and works by the version that is on."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

from sparkdrain.coordination.barrier import BarrierPhase
from sparkdrain.coordination.group_leader import read_model
from sparkdrain.coordination.lease import seconds_that_pass
from sparkdrain.coordination.locality import LastHome, Locality
from sparkdrain.coordination.membership import HEARTBEATS, Heartbeat, MemberRecord
from sparkdrain.coordination.metadata import MetadataError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.coordination.barrier import GroupModel
    from sparkdrain.coordination.metadata import MetadataStore


class SlotWork(Protocol):
    """What a member does with its slots."""

    def start(self, version: int, slots: frozenset[int]) -> None:
        """Work on these slots. Called once at most for a version."""

    def stop(self) -> None:
        """Work on no slot any more, when this returns."""


class GroupMember:
    """One member of a group. One thread calls its methods; any thread may ask ``works``.

    It works by a version after it has told so and then seen that the version is still on. So a
    leader that starts another version either sees who works, or is seen.

    Args:
        store: where the group is.
        group: its name.
        name: of this member; no other has it.
        location: where it is.
        work: what it does.
        life: makes a random text.
        seconds: after which this member is dead if it is silent.
        clock: seconds that pass on this machine.
    """

    def __init__(
        self,
        store: MetadataStore,
        group: str,
        name: str,
        location: str,
        work: SlotWork,
        life: Callable[[], str],
        *,
        seconds: float,
        clock: Callable[[], float] = seconds_that_pass,
    ) -> None:
        self._store = store
        self._group = group
        self._home = LastHome(location, name)
        self._work = work
        self._life = life
        self._heartbeat = Heartbeat(
            store, group, MemberRecord(name, life(), location, seconds=seconds), clock
        )
        self._locality = Locality(store, group)
        self._is_member = False
        self._writes_next = True
        self._running = 0
        self._problem = ""

    @property
    def problem(self) -> str:
        """Why the last step could not use the store; empty if it could."""
        return self._problem

    def works(self) -> int:
        """The version that this member works by; 0 if it does not, or must not any more."""
        return self._running if self._heartbeat.is_alive() else 0

    def step(self) -> float:
        """Tell that this member lives, or look at the model and do what it says.

        Steps take turns, so a step is one request to the store unless the model has changed.

        Returns:
            Seconds until the next step is due.
        """
        try:
            self._step()
            self._problem = ""
        except (MetadataError, ValueError) as error:
            self._problem = str(error)
        if not self._heartbeat.is_alive():
            self._stop()
        return self._heartbeat.record.seconds / HEARTBEATS / 2

    def leave(self) -> None:
        """Work no more, and tell so. A store that is down does not hear of it."""
        self._stop()
        try:
            self._heartbeat.end()
        except MetadataError as error:
            self._problem = str(error)
        self._is_member = False

    def _step(self) -> None:
        record = self._heartbeat.record
        if not self._is_member or not self._heartbeat.is_alive():
            self._stop()
            if self._is_member:
                # Others take the life before for dead.
                self._is_member = False
                self._heartbeat.record = dataclasses.replace(
                    record, life=self._life(), joined=0, runs=0
                )
            self._is_member = self._heartbeat.begin()
        elif self._writes_next:
            self._writes_next = False
            self._tell(record)
        else:
            self._writes_next = True
            self._follow(read_model(self._store, self._group))

    def _follow(self, model: GroupModel) -> None:
        record = self._heartbeat.record
        if model.version != record.joined:
            self._stop()
            self._tell(dataclasses.replace(record, joined=model.version, runs=0))
        elif self._is_on(model) and self._running == 0:
            works = dataclasses.replace(record, runs=model.version)
            if record == works or self._tell(works):
                self._start_if_on(model)

    def _start_if_on(self, model: GroupModel) -> None:
        now = read_model(self._store, self._group)
        if now.version == model.version and self._heartbeat.is_alive():
            slots = model.slots_of(self._home.name)
            self._running = model.version
            self._work.start(model.version, slots)
            self._locality.tell(sorted(slots), self._home)

    def _is_on(self, model: GroupModel) -> bool:
        record = self._heartbeat.record
        return model.phase is BarrierPhase.END and model.has(record.name, record.life)

    def _tell(self, record: MemberRecord) -> bool:
        if self._heartbeat.write(record):
            return True
        self._stop()
        return False

    def _stop(self) -> None:
        if self._running:
            self._running = 0
            self._work.stop()
