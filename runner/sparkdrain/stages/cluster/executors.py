"""The executors that a session has, and how long to wait for more before a job is laid out."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final

from sparkdrain.graph.notices import relative_paths
from sparkdrain.stages.cluster.context import is_local
from sparkdrain.stages.cluster.parking import expected, is_parked
from sparkdrain.stages.spark.session import registered_executors, started

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apache_beam.portability.api import beam_runner_api_pb2
    from pyspark import SparkContext

    from sparkdrain.hosts.executor import Executor
    from sparkdrain.types import CancelToken

_LOCAL_CLUSTER: Final = re.compile(r"local-cluster\[\s*(\d+)\s*,")
_NONE_SECONDS: Final = 30.0
_QUIET_SECONDS: Final = (1.0, 15.0)
_LOOK_SECONDS: Final = 0.1
_NONE: Final = (
    "Spark's master {} has given no executor in {:.0f} s, and nothing runs before there is one. "
    "Its own pages and logs say why: no worker, no room for an executor of that size, no image, "
    "an image or a worker with another version of Spark."
)
_HAZARDS: Final = {
    "spark.dynamicAllocation.enabled": (
        "take executors away that are idle, and with them the state of their slots"
    ),
    "spark.speculation": "run slow tasks twice, which a slot with state takes for a lost round",
}


def executors(context: SparkContext) -> list[Executor]:
    """The executors that are alive; none for a local master, whose one executor is the driver."""
    return [executor for executor, _ in registered_executors(context)]


def await_executors(
    context: SparkContext,
    cancel: CancelToken,
    tell: Callable[[str], object],
    came: Callable[[Sequence[Executor]], object] | None = None,
    clock: Callable[[], float] = time.time,
) -> None:
    """Return when the session has an executor; with ``came``, all as far as that can be known.

    Executors of a new session come one after the other, and Spark gives all tasks to the first
    one. How many there will be only some masters say. See ``patience``.

    Args:
        tell: takes a warning if none has come: Spark itself would be silent, and the job would
            wait for ever.
        came: takes those that are new, at each look that finds some; returns soon.
    """
    if is_local(context):
        return
    conf = context.getConf()  # a request for each property
    if conf.get("spark.dynamicAllocation.enabled") == "true" and not is_parked(conf):
        return
    asked, awaited = clock(), _expected(context)
    began = asked if is_parked(conf) else min(asked, started(context))
    seen: set[Executor] = set()
    while not cancel.is_cancelled():
        found = dict(registered_executors(context))
        if came is not None and (new := [one for one in found if one not in seen]):
            seen.update(new)
            came(new)
        added = list(found.values())
        left = patience(clock(), asked, began, added, awaited)
        if left <= 0 and not added:
            tell(_NONE.format(context.master, _NONE_SECONDS))
        if left <= 0 or (added and came is None):
            return
        cancel.wait(min(left, _LOOK_SECONDS))


def hazards(context: SparkContext) -> list[str]:
    """What the session is set to do that a job whose processes have state cannot take, in words."""
    conf = context.getConf()
    return [
        f"Spark is set to {what}: set {name}=false for streaming jobs, with --spark_conf or where "
        "the session is made."
        for name, what in _HAZARDS.items()
        if not is_local(context) and not is_parked(conf) and conf.get(name, "false") == "true"
    ]


def patience(
    now: float, asked: float, started: float, added: Sequence[float], expected: int | None
) -> float:
    """How many more seconds to wait for executors, if none comes meanwhile.

    Until there are as many as expected, or none has come for half as long as the first one took,
    at least 1 s and at most 15 s; if there is none at all, for 30 s.

    Args:
        now: seconds, as all times here.
        asked: when waiting began.
        started: when the session did.
        added: when each executor came.
        expected: how many there are to be, if that is known.
    """
    if not added:
        return asked + _NONE_SECONDS - now
    if expected is not None and len(added) >= expected:
        return 0.0
    least, most = _QUIET_SECONDS
    quiet = min(most, max(least, (min(added) - started) / 2))
    return max(added) + quiet - now


def _expected(context: SparkContext) -> int | None:
    given = _LOCAL_CLUSTER.match(context.master)
    number = given[1] if given else expected(context.getConf())
    return int(number) if number else None


def lost_paths(context: SparkContext, pipeline: beam_runner_api_pb2.Pipeline) -> list[str]:
    """A warning for each relative path, unless the workers are in the program's directory."""
    if is_local(context):
        return []
    return [
        f"{step!r} has the relative path {path!r}. The executors of {context.master} look for it "
        "in their own directories, not in the program's: input may be missing or empty, and output "
        "stays there. Give an absolute path that all executors share, or a URL (s3://, gs://, "
        "hdfs://)."
        for path, step in sorted(relative_paths(pipeline).items())
    ]
