"""How slots were opened with the state of checkpoints, over all lives of a job."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sparkdrain.rounds.messages import RoundReport

LOCAL: Final = "stateBytesLocal"
"""Counts bytes of state that slots were opened with and that their hosts had."""

FETCHED: Final = "stateBytesFetched"
"""Counts bytes of state that slots were opened with and that came from ``--checkpoint_dir``."""


@dataclass(slots=True)
class Openings:
    """What the job's user is told of them.

    Attributes:
        tell: takes a text for the user.
        counts: what hosts had already, and what was read from storage, of all slots together;
            empty as long as none was opened so.
    """

    tell: Callable[[str], object]
    warn: Callable[[str], object]
    counts: Counter[str] = field(default_factory=Counter)
    _warned: set[str] = field(default_factory=set)

    def heard(self, reports: Sequence[RoundReport]) -> None:
        """A round with these reports was committed."""
        told = [each.opened.told for each in reports if each.opened is not None]
        told += [each.uploaded.told for each in reports if each.uploaded is not None]
        for text in told:
            if text and text not in self._warned:
                self._warned.add(text)
                self.warn(text)
        opened = [each.opened for each in reports if each.opened is not None]
        if not opened:
            return
        local = sum(each.local_bytes for each in opened)
        fetched = sum(each.fetched_bytes for each in opened)
        self.counts.update({LOCAL: local, FETCHED: fetched})
        slots = len({each.slot for each in reports if each.opened is not None})
        self.tell(
            f"{slots} {'slots were' if slots > 1 else 'slot was'} opened with the state of the "
            f"checkpoint: {local:,} bytes were on their hosts, {fetched:,} came from "
            f"--checkpoint_dir. The slowest took {max(each.seconds for each in opened):.1f} s."
        )
