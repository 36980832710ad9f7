"""The job that SDK harnesses work for, as they know it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sparkdrain.options import samples_all

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sparkdrain.fnapi.samples import SampleTeller


@dataclass(frozen=True, slots=True)
class HarnessJob:
    """What harnesses need to know of the job that they work for.

    Attributes:
        options: the pipeline's options, by plain name.
        staged: finds the staged file of a name; None if there is none.
        when_over: has a function called when the job is over. Then its harnesses end in order.
        log: takes the level and the text of each record that a client of the job is to see.
        samples: takes samples of elements; None if the job wants none.
        executor: a folder of this executor, in which the slots of the job find a harness that
            they share; None if there is no such folder. It may not be there yet.
        slots: how many slots the job has.
    """

    id: str
    options: Mapping[str, Any] = field(repr=False)
    staged: Callable[[str], Path | None] = lambda _: None
    when_over: Callable[[Callable[[], object]], object] = lambda _: None
    log: Callable[[int, str], object] = lambda _level, _text: None
    samples: SampleTeller | None = None
    executor: Path | None = None
    slots: int = 1

    @property
    def samples_all(self) -> bool:
        """Whether samples are kept of all elements, not only where user code fails."""
        return samples_all(self.options.get("experiments") or ())
