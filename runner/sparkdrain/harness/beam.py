"""Every piece of Beam's worker that we use; an upgrade of Beam is checked here."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from apache_beam.coders.coder_impl import create_InputStream, create_OutputStream
from apache_beam.metrics.execution import MetricsContainer
from apache_beam.runners import common
from apache_beam.runners.worker import bundle_processor, operations, statesampler
from apache_beam.runners.worker.bundle_processor import (
    BeamTransformFactory,
    BundleProcessor,
    DataInputOperation,
    DataOutputOperation,
    ExecutionContext,
    _create_pardo_operation,
    memoize,
)
from apache_beam.runners.worker.data_plane import _DEFAULT_SIZE_FLUSH_THRESHOLD
from apache_beam.transforms.core import _BundleFinalizerParam
from apache_beam.transforms.trigger import (
    Always,
    BatchGlobalTriggerDriver,
    DefaultTrigger,
    create_trigger_driver,
)
from apache_beam.utils import proto_utils

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

create_pardo_operation = _create_pardo_operation
FLUSHED_AT = _DEFAULT_SIZE_FLUSH_THRESHOLD
"""The bytes beyond which a stream of the data channel is sent."""

__all__ = [
    "FLUSHED_AT",
    "Always",
    "BatchGlobalTriggerDriver",
    "BeamTransformFactory",
    "BundleProcessor",
    "DataInputOperation",
    "DataOutputOperation",
    "DefaultTrigger",
    "ExecutionContext",
    "MetricsContainer",
    "bundle_processor",
    "common",
    "create_InputStream",
    "create_OutputStream",
    "create_pardo_operation",
    "create_trigger_driver",
    "memoize",
    "operations",
    "proto_utils",
    "statesampler",
    "taken_finalizers",
]


@contextmanager
def taken_finalizers() -> Iterator[list[Callable[[], object]]]:
    """Operations that are told to finalize their bundle put the callbacks into a list instead.

    Beam's operations show neither their callbacks nor what holds them.
    """
    taken: list[Callable[[], object]] = []
    original = _BundleFinalizerParam.finalize_bundle
    _BundleFinalizerParam.finalize_bundle = lambda param: taken.extend(vars(param)["_callbacks"])
    try:
        yield taken
    finally:
        _BundleFinalizerParam.finalize_bundle = original
