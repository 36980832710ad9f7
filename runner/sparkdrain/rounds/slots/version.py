"""Versions of a slot's state: which is prepared, which counts, and which a checkpoint has."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from sparkdrain.checkpoints.rescale import groups_of_slot
from sparkdrain.errors import HostMissing
from sparkdrain.rounds.finalizers import Finalizers
from sparkdrain.rounds.kept_finalizers import KeptFinalizers
from sparkdrain.rounds.stable import Coverage, StableInput
from timers_state import StateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sparkdrain.checkpoints.upload import Uploaded, Uploader
    from sparkdrain.rounds.context import Context
    from sparkdrain.rounds.kept_finalizers import FinalizerRow
    from sparkdrain.rounds.messages import Orders
    from sparkdrain.stages.shards.input import Input
    from sparkdrain.stages.shards.shard import Shard
    from sparkdrain.stages.shards.slot import Slot

# How long the last round of a job waits for one acknowledgement of a finalizer.
_SETTLE_SECONDS: Final = 10.0
# How long a report waits for an upload that the job waits for. To hear of it in the next round
# takes longer; seconds.
_MOMENT: Final = 0.1
# The same while all slots stand still: until the upload has ended, rounds bring nothing; seconds.
_STILL: Final = 2.0


class StateVersion:
    """The state of one slot of one level, and the attempts whose versions of it are here.

    Each round prepares a version. The driver decides whether it counts, and says so in the header
    of the next round. Finalizers and stable input wait until it counts, or until a checkpoint that
    has it is published.

    Args:
        uploader: copies state, and removes versions that it has copied; None if the job has no
            checkpoints.
        committed: the attempt whose version a checkpoint had; None if the state is empty.
    """

    def __init__(self, context: Context, uploader: Uploader | None, committed: int | None) -> None:
        self._overlay = context.overlay
        self._owner = f"slot {context.slot} of level {context.level}"
        self._prepared: int | None = None
        self._committed = committed
        self._dirty = False
        self._patience = 0.0
        self._uploader = uploader
        self._directory = context.directory / f"versions-{context.level}"
        self._begun: int | None = None
        self._takes_up = committed is not None
        self.coverage = Coverage(restored=committed is not None)
        self._kept = KeptFinalizers(context.overlay, groups_of_slot(context.slot, context.slots))
        self.finalizers = Finalizers(None if uploader is None else self._kept)

    def settle(
        self, committed: int | None, commit: Callable[[], None], undo: Callable[[], None]
    ) -> None:
        """Commit or undo what was prepared last, as the driver has decided.

        Args:
            committed: the attempt that counts; None if none does.
            commit: commits the rest of the slot, after its state.
            undo: undoes the rest of the slot, after its state.

        Raises:
            HostMissing: the driver counts on a version that is not here.
        """
        if committed is not None and committed == self._prepared:
            self._overlay.commit()
            self.finalizers.committed()
            commit()
            self._committed = self._prepared
        elif committed != self._committed:
            message = (
                f"the state of {self._owner} is not the one that the "
                "last round ended with: the process that held it is gone"
            )
            raise HostMissing(message)
        elif self._dirty:
            self._overlay.rollback()
            self.finalizers.undone()
            undo()
        self._prepared = None
        self._dirty = False

    def begin(self) -> None:
        """A round begins: from now on there is something to undo."""
        self._dirty = True

    def prepare(self, number: int, attempt: int, shards: Iterable[Shard]) -> int:
        """End a round for the state, with the finalizers that it has registered.

        Args:
            attempt: names the version.

        Returns:
            How many bytes the version has.
        """
        taken = [each for shard in shards for each in shard.take_finalizers()]
        self.finalizers.registered(number, taken)
        prepared_bytes = self._overlay.prepare()
        self._prepared = attempt
        return prepared_bytes

    # --- checkpoints --------------------------------------------------------------------------

    def follow(self, orders: Orders, slot: Slot) -> tuple[str, ...]:
        """Begin the checkpoint that the driver orders, and note which one it has published.

        Runs between rounds, when the committed version is all that there is.

        Returns:
            In the last round: why finalizers have failed; a text each.
        """
        if self._takes_up:
            self._takes_up = False
            self.finalizers.restored(self._left_over(slot.shards))
        self._patience = _STILL if orders.still else _MOMENT if orders.awaited else 0.0
        self.finalizers.published(orders.published)
        self.coverage.published(orders.published)
        if self._uploader is not None:
            self._uploader.published(orders.published)
        if self._uploader is not None and orders.checkpoint is not None:
            self.finalizers.covered(orders.checkpoint)
            ends = {input_.state_id: input_.end for input_ in _stable(slot.in_turn())}
            self.coverage.begun(orders.checkpoint, ends)
            self._begin(self._uploader, orders.checkpoint)
        return tuple(self.finalizers.settle(_SETTLE_SECONDS)) if orders.last else ()

    def _left_over(
        self, shards: Sequence[Shard]
    ) -> list[tuple[FinalizerRow, str, Callable[[], object]]]:
        """Finalizers that a life before this one has not run, or not to their end."""
        owners = {str(id_): shard for shard in shards for id_, _ in shard.stage.transforms}

        def remake(transform: str, data: str) -> Callable[[], object]:
            return owners[transform].acknowledgement(transform, data)

        return list(self._kept.restored(remake))

    def _begin(self, uploader: Uploader, number: int) -> None:
        """Keep the state as it is, and start to copy it; again for the same number: nothing."""
        if self._begun == number:
            return
        self._begun = number
        version = self._directory / str(number)
        try:
            version.parent.mkdir(parents=True, exist_ok=True)
            # Inputs may have looked at their state since the last round, which opens it.
            self._overlay.prepare()
            self._overlay.commit()
            self._overlay.snapshot(version)
        except (StateError, OSError) as error:
            # A disk is full, perhaps. That is the end of this checkpoint, not of the round.
            shutil.rmtree(version, ignore_errors=True)
            uploader.fail(number, str(error))
        else:
            uploader.begin(number, version)

    def waits(self, slot: Slot) -> bool:
        """Whether something waits for a checkpoint that is still to be begun."""
        return any(input_.waits for input_ in _stable(slot.in_turn()))

    def ended(self) -> Uploaded | None:
        """How the last upload has ended, if it has."""
        if self._uploader is None:
            return None
        self._uploader.await_end(self._patience)
        return self._uploader.poll()

    def close(self) -> None:
        """Stop copying."""
        if self._uploader is not None:
            self._uploader.close()


def _stable(inputs: Iterable[Input]) -> list[StableInput]:
    return [input_ for input_ in inputs if isinstance(input_, StableInput)]
