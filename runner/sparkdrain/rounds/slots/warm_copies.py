"""Published files of slots that other hosts have, kept on this host as well.

If such a host is lost, its slots go to a host that has their files (``assignment.assign``), and
nothing is downloaded then.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from sparkdrain.checkpoints.beam_storage import storage_at
from sparkdrain.checkpoints.publish import newest
from sparkdrain.checkpoints.restore import checked_chunks
from sparkdrain.errors import CheckpointFailed, SparkDrainError
from sparkdrain.local_state.files import FileContent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Set
    from typing import TypeAlias

    from sparkdrain.checkpoints.manifest import ShardState
    from sparkdrain.checkpoints.paths import Paths
    from sparkdrain.checkpoints.storage import Storage
    from sparkdrain.local_state.slot_files import SlotFiles
    from sparkdrain.rounds.slots.checkpoint_place import CheckpointPlace

    Wanted: TypeAlias = tuple[int, tuple[int, ...]]

_LOGGER = logging.getLogger(__name__)


class WarmCopies:
    """Fetches files in a thread of its own, which holds up no round and fails none.

    What could not be fetched is fetched with the next checkpoint.

    Args:
        place: where the job's checkpoints are, if it has any.
    """

    def __init__(self, place: CheckpointPlace | None) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._wanted: Wanted = (0, ())
        self._thread: threading.Thread | None = None
        self._closed = False
        # By level and slot; the thread's own.
        self._kept: dict[tuple[int, int], SlotFiles] = {}

    def want(self, number: int, slots: tuple[int, ...]) -> None:
        """This host is to have the files of these slots as checkpoint ``number`` has them.

        Cheap if that is known. Of two checkpoints, the later one counts.
        """
        if self._wanted == (number, slots) or not (number and (slots or self._wanted[1])):
            return
        with self._lock:
            self._wanted = (number, slots)
            if self._thread is None and not self._closed:
                # A daemon: no process waits for a storage that hangs.
                self._thread = threading.Thread(target=self._work, name="warm-copies", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Fetch nothing more. What is here stays. Does not wait."""
        with self._lock:
            self._closed = True
            if self._thread is None:
                self._drop(set(self._kept))

    # --- in the thread ------------------------------------------------------------------------

    def _work(self) -> None:
        done: Wanted | None = None
        while (wanted := self._next(done)) is not None:
            try:
                self._copy(wanted)
            except (SparkDrainError, OSError):
                _LOGGER.info("copies of checkpoint %d were not made", wanted[0], exc_info=True)
            done = wanted

    def _next(self, done: Wanted | None) -> Wanted | None:
        with self._lock:
            if not self._closed and self._wanted != done:
                return self._wanted
            self._thread = None
            if self._closed:
                self._drop(set(self._kept))
            return None

    def _copy(self, wanted: Wanted) -> None:
        assert self._place is not None, "a checkpoint was published"
        number, slots = wanted
        storage, paths = storage_at(self._place.paths.root), self._place.paths
        manifest = newest(storage, paths, number)
        if manifest is None:
            return  # a newer one has taken its place, and is about to be told of
        shards = {(one.level, one.slot): one for one in manifest.shards if one.slot in slots}
        self._drop(self._kept.keys() - shards.keys())
        for at, shard in sorted(shards.items()):
            kept = self._kept.get(at) or self._place.slot_files(*at)
            if kept is None:
                return
            self._kept[at] = kept
            try:
                bring_shard(storage, self._place.paths, kept, number, shard, self._check)
            except SparkDrainError:
                _LOGGER.info("no copy of slot %d, level %d", at[1], at[0], exc_info=True)

    def _check(self) -> None:
        if self._closed:
            message = "The slot has ended."
            raise CheckpointFailed(message)

    def _drop(self, gone: Set[tuple[int, int]]) -> None:
        for at in gone:
            self._kept.pop(at).close()


def bring_shard(
    storage: Storage,
    paths: Paths,
    kept: SlotFiles,
    number: int,
    shard: ShardState,
    check: Callable[[], object] = lambda: None,
) -> None:
    """Have the files of one slot and level on this host, as a published checkpoint names them.

    Args:
        kept: this host's folder.
        check: called all the time; what it raises ends this.

    Raises:
        CheckpointFailed: the storage refuses; also ``CheckpointDamaged``.
    """
    files = {FileContent(one.digest, one.size): one for one in shard.files if one.path}

    def chunks(content: FileContent) -> Iterator[bytes]:
        for chunk in checked_chunks(storage, paths, files[content]):
            check()
            yield chunk

    kept.bring(number, files, chunks)
