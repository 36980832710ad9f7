"""How bytewax is spread over processes and threads."""

from __future__ import annotations

from dataclasses import dataclass

SAVE_SECONDS = 1.0  # between two snapshots where state is saved


@dataclass(frozen=True, slots=True)
class Arrangement:
    """How bytewax is spread over processes and threads.

    Attributes:
        processes: Python processes.
        workers: worker threads in each process.
        apart: whether each process runs a dataflow of its own over its share of the source, so
            that the processes exchange nothing.
        saves: whether state is saved in bytewax's recovery store, every `SAVE_SECONDS`.
    """

    processes: int = 1
    workers: int = 1
    apart: bool = False
    saves: bool = False

    def part(self, number: int) -> slice:
        """Which shards of the source the process of this number reads."""
        return slice(number, None, self.processes) if self.apart else slice(None)
