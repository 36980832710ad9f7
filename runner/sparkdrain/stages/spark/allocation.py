"""How many executors a session has, where its master lets it say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext


def request_executors(context: SparkContext, number: int) -> None:
    """Ask the master for so many more, and let Spark not decide by itself any more.

    Args:
        context: of a session that was made with dynamic allocation.
        number: more than the master has is no error.
    """
    session: Any = context._jsc.sc()
    manager = session.executorAllocationManager()
    if manager.isDefined():
        manager.get().stop()
    session.requestExecutors(number)
