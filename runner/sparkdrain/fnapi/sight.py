"""What an SDK harness is at, from what it tells: the transform whose code runs, and its stack."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from apache_beam.coders import VarIntCoder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apache_beam.portability.api import metrics_pb2

    from sparkdrain.harness.step_book import Frame

_TIMES: Final = re.compile(r"beam:metric:pardo_execution_time:\w+_bundle_msecs:v1")
_MILLISECONDS: Final = VarIntCoder()
# How SDKs write the calls of a thread; Python begins with the outermost one.
_PYTHON: Final = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_JAVA: Final = re.compile(r"([\w.$/<>]+)\(([\w$]+\.\w+):(\d+)\)")
_GO: Final = re.compile(r"^#\s+0x[0-9a-f]+\s+(\S+?)\+0x[0-9a-f]+\s+(\S+):(\d+)", re.MULTILINE)
_THREADS: Final = re.compile(r"\n(?=-{3,} ?Thread|\d+ @ )|\n\n")
# What a thread is in that processes a bundle.
_IN_BUNDLE: Final = (
    "in process_bundle\n",
    "ProcessBundleHandler.processBundle(",
    "exec.(*Plan).Ex",
)
_AWAITS: Final = "BeamFnDataInboundObserver.awaitCompletion("


def times(infos: Iterable[metrics_pb2.MonitoringInfo]) -> Counter[str]:
    """The milliseconds that code of each transform has taken, by id."""
    found: Counter[str] = Counter()
    for info in infos:
        if _TIMES.fullmatch(info.urn):
            found[info.labels["PTRANSFORM"]] += _MILLISECONDS.decode(info.payload)
    return found


def busiest(before: Counter[str], after: Counter[str]) -> str:
    """The transform whose code has taken the most time between two looks; "" if none has."""
    return next((transform for transform, _ in (after - before).most_common(1)), "")


def stack_in(status: str, group: str = "", *, is_shared: bool = False) -> tuple[Frame, ...]:
    """The calls, the innermost first, of a thread that processes a bundle; empty if none does.

    Args:
        status: what a harness tells of itself (``BeamFnWorkerStatus``), as Python, Java or Go
            write it.
        group: the name of a group of threads. If Java has such threads, the thread is one of them:
            harnesses of other slots may be in the same JVM.
        is_shared: whether threads may have bundles of other slots, and nothing tells of which. So
            threads at different places say nothing.
    """
    threads = _in_bundles(status, group)
    if not threads or (is_shared and len(threads) > 1):
        return ()
    python = [(file, int(line), name) for file, line, name in _PYTHON.findall(threads[0])]
    others = [
        (file, int(line), name)
        for name, file, line in _JAVA.findall(threads[0]) + _GO.findall(threads[0])
    ]
    return tuple(python[::-1] or others)


def waits_for_elements(status: str, group: str, *, is_shared: bool = False) -> bool:
    """Whether a thread of Java's processes a bundle, and can do nothing before elements come.

    Args:
        status: as for ``stack_in``.
        group: likewise.
        is_shared: likewise. So only if all threads wait, it is known that this slot's does.
    """
    threads = _in_bundles(status, group)
    waiting = [thread for thread in threads if _AWAITS in thread]
    return waiting == threads != [] if is_shared else waiting != []


def _in_bundles(status: str, group: str) -> list[str]:
    """What a status says of threads that process bundles."""
    threads = [each for each in _THREADS.split(status) if any(mark in each for mark in _IN_BUNDLE)]
    mark = f",{group}]"
    return [each for each in threads if mark in each] if group and mark in status else threads
