"""How many elements of a step may be inside of it: as many as users say, and memory allows."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from sparkdrain.harness.sampling import SampleSchedule

if TYPE_CHECKING:
    from collections.abc import Callable

_LOGGER = logging.getLogger(__name__)

WAITING: Final = 256
"""Elements that may wait to be started, beside those in flight: handing one over costs much."""

# So many elements are let in whatever they take: those that a step has in flight by default, and as
# many as may wait.
_ALWAYS: Final = 100 + WAITING
# Bytes of memory that an element in flight takes beside its own encoding, an estimate: its task and
# its coroutine, of which 20,000 that sleep took 3 KiB each, and 1 KiB for what the call has. The
# buffers of a client are not in it, nor what user code keeps in variables.
_ELEMENT_BYTES: Final = 4 << 10
# The same for a key in flight, which has a worker with a place of its own, so cells, timers and
# generated calls, too. An estimate that was not measured. The key's state is not in it: that has
# its own budget.
_KEY_BYTES: Final = 16 << 10


class FlightRoom:
    """Lets more elements in as long as all that are inside fit into memory, by an estimate.

    The estimate is the mean of samples: the encoding of an element, and ``_ELEMENT_BYTES``. An
    element is a sample if it comes when there is no more room, and then ever more seldom. So the
    mean is wrong if elements get larger.

    Args:
        name: the step's full name, for messages.
        max_in_flight: how many elements users want to have in flight.
        most_bytes: bytes that all elements inside may take.

    Attributes:
        most: so many elements may be inside now, in flight or waiting.
    """

    def __init__(self, name: str, max_in_flight: int, most_bytes: int) -> None:
        self._name = name
        self._asked = max_in_flight + WAITING
        self._most_bytes = most_bytes
        self._is_time = SampleSchedule()
        self._samples = 0
        self._mean = 0.0
        self._is_told = False
        self.most = min(self._asked, _ALWAYS)

    def grow(self, size: Callable[[], int]) -> bool:
        """Let more elements in, if there is room; whether it has.

        Args:
            size: tells the bytes of the element that came last.
        """
        if self.most == self._asked:
            return False
        if self._is_time():
            self._samples += 1
            self._mean += (_ELEMENT_BYTES + size() - self._mean) / self._samples
        fitting = max(_ALWAYS, int(self._most_bytes / self._mean))
        before, self.most = self.most, min(self._asked, fitting, 2 * self.most)
        if fitting < self._asked and self.most == fitting and not self._is_told:
            self._is_told = True
            tell_no_more(self._name, fitting - WAITING, self._asked - WAITING, int(self._mean))
        return self.most > before


def keys_in_flight(name: str, max_in_flight: int, most_bytes: int) -> int:
    """How many keys of a step with state may be in flight, if each takes ``_KEY_BYTES``."""
    fitting = max(_ALWAYS, most_bytes // _KEY_BYTES)
    if fitting < max_in_flight:
        tell_no_more(name, fitting, max_in_flight, _KEY_BYTES)
    return min(max_in_flight, fitting)


def tell_no_more(name: str, most: int, asked: int, each: int) -> None:
    """Log that fewer elements are in flight than users ask for."""
    _LOGGER.warning(
        "%r has %d of its %d elements in flight in each slot, since each takes about %d bytes of "
        "memory. For more of them, raise --shuffle_memory_mb",
        name,
        most,
        asked,
        each,
    )
