"""Has workers of this machine load what rounds need, before there is a round."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from sparkdrain.stages.cluster.context import is_local
from sparkdrain.stages.spark.exchange import Exchange, partitioner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import SparkContext

_LOADED: Final = "sparkdrain.rounds.slots.service"


def warm_workers(context: SparkContext, slots: int) -> None:
    """Start a worker for each slot, where tasks run in the driver's own JVM; else do nothing.

    A driver that waits must not hold executors of a cluster, and has none to warm.
    """
    if not is_local(context):
        return
    exchange = Exchange(context, _load, (), 1, range(slots), partitioner(context, 1, id(_load)))
    exchange.run()
    exchange.drop()


def _load(slot: int, records: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    importlib.import_module(_LOADED)
    del slot, records
    return iter(())
