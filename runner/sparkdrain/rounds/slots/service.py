"""What lives in a slot's host process: its part of every level.

A level's part comes to life empty, or with the state that a checkpoint has of it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from zlib import crc32

from sparkdrain.checkpoints.beam_storage import storage_at
from sparkdrain.checkpoints.upload import Destination, Uploader
from sparkdrain.graph.plan import Plan
from sparkdrain.harness.step_book import step_in
from sparkdrain.hosts.lookout import NOTES
from sparkdrain.hosts.service import Abandoned
from sparkdrain.local_state.files import FileContent
from sparkdrain.rounds.messages import AtWork, Opened, RoundHeader
from sparkdrain.rounds.slots.slot import RoundSlot, state_directory
from sparkdrain.rounds.slots.take_over import take_over
from sparkdrain.rounds.slots.warm_copies import WarmCopies
from sparkdrain.stages.telling.failure import task_failure
from sparkdrain.stages.telling.stack import stack_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sparkdrain.checkpoints.manifest import FileEntry
    from sparkdrain.fnapi.harness import Outside
    from sparkdrain.rounds.slots.checkpoint_place import CheckpointPlace
    from sparkdrain.shuffle.outbox import ShuffleLayout
    from sparkdrain.stages.shards.task_options import TaskOptions


def open_slot(
    plan: Plan,
    header: RoundHeader,
    layout: ShuffleLayout,
    options: TaskOptions,
    directory: Path,
    place: CheckpointPlace | None,
    outside: Outside | None = None,
) -> RoundSlot:
    """The slot that is to run the round of ``header``, in a process that did not have it.

    Raises:
        CheckpointFailed: its state cannot be fetched.
        CheckpointDamaged: its state in storage is not what was written.
        CheckpointRefused: there were other slots, and some state cannot be moved to these.
    """
    level, slot, inheritance = header.level, header.slot, header.restore
    if place is None:
        return RoundSlot(plan, level, slot, layout, options, directory, outside=outside)
    began = time.monotonic()
    storage, kept = storage_at(place.paths.root), place.slot_files(level, slot)
    where = state_directory(directory, level)
    files: tuple[FileEntry, ...] = ()
    opened = None
    try:
        if inheritance is not None:
            files = inheritance.files(layout.slots)
            contents = {
                FileContent(file.digest, file.size): file.name for file in files if file.path
            }
            number = header.orders.published
            if kept is not None and contents:
                kept.hold(number, contents)
            found = take_over(plan, inheritance, layout.slots, storage, place.paths, where, kept)
            if kept is not None and contents:
                named = {content: where / name for content, name in contents.items()}
                kept.keep(number, named, lambda: None)
            told = "" if kept is None else kept.wrong
            seconds = time.monotonic() - began
            opened = Opened(seconds, found.local_bytes, found.fetched_bytes, told)
    except BaseException:
        if kept is not None:
            kept.close()
        raise
    uploader = Uploader(Destination(storage, place.paths, place.epoch, level, slot), files, kept)
    return RoundSlot(
        plan,
        level,
        slot,
        layout,
        options,
        directory,
        uploader=uploader,
        restored=None if inheritance is None else inheritance.report,
        outside=outside,
        opened=opened,
    )


@dataclass(slots=True)
class SlotService:
    """Runs rounds of one slot, whatever the level; see ``sparkdrain.hosts``.

    Attributes:
        plan: the job's, encoded.
        directory: where state goes; deleted by the host.
        outside: where stages of other environments run. Their harnesses end with the service.
        place: where checkpoints go, if the job has any.
        flush: waits a moment until what harnesses have logged is on its way to the driver.
    """

    plan: bytes
    layout: ShuffleLayout
    options: TaskOptions
    directory: Path
    outside: Outside
    place: CheckpointPlace | None = None
    flush: Callable[[], object] = lambda: None
    _plan: Plan | None = None
    _slots: dict[int, RoundSlot] = field(default_factory=dict)
    _copies: WarmCopies = field(init=False)
    _level: int = -1

    def __post_init__(self) -> None:
        self._copies = WarmCopies(self.place)

    def run(
        self,
        request: bytes,
        records: Iterator[bytes],
        push: Callable[[tuple[int, bytes]], None],
    ) -> None:
        """Run the round that ``request``, a ``RoundHeader``, asks for."""
        header = RoundHeader.decode(request)
        self._level = header.level
        try:
            slot = self._slots.get(header.level)
            if slot is None:
                slot = self._slots[header.level] = self._open(header)
            self._copies.want(header.orders.published, header.copies)
            slot.run(header, records, lambda partition, record: push((partition, record)))
        except Abandoned:
            raise
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            raise task_failure(error, header.level, header.slot) from None

    def _open(self, header: RoundHeader) -> RoundSlot:
        if self._plan is None:
            self._plan = Plan.decode(self.plan)
        return open_slot(
            self._plan, header, self.layout, self.options, self.directory, self.place, self.outside
        )

    def look(self) -> bytes:
        """What the round is at, as an ``AtWork``; see ``Service.look``."""
        slot = self._slots.get(self._level)
        step, key = ("", None) if slot is None else slot.at_work()
        elsewhere = () if slot is None else slot.stack()
        frames = tuple(elsewhere or stack_of(threading.main_thread().ident))
        if not step:
            with contextlib.suppress(OSError):
                step = step_in((self.directory / NOTES).read_text(), frames)
        hashed = "" if key is None else f"{crc32(key):08x}"
        return AtWork(step, hashed, frames).encode()

    def close(self) -> None:
        """Tear all DoFns down, and end all harnesses."""
        with contextlib.ExitStack() as closing:
            # The host's process, and with it the thread that sends, ends when this returns.
            closing.callback(self.flush)
            closing.callback(self.outside.harnesses.close)
            closing.callback(self._copies.close)
            for slot in self._slots.values():
                closing.callback(slot.close)
