"""Every piece of Beam's worker that we use; an upgrade of Beam is checked here."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from apache_beam.coders.coder_impl import create_InputStream, create_OutputStream
from apache_beam.metrics.execution import MetricsContainer, MetricsEnvironment
from apache_beam.runners import common
from apache_beam.runners.worker import bundle_processor, operations, statesampler
from apache_beam.runners.worker.bundle_processor import (
    BeamTransformFactory,
    BundleProcessor,
    DataInputOperation,
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

    from apache_beam.portability.api import beam_runner_api_pb2

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
    "DefaultTrigger",
    "ExecutionContext",
    "MetricsContainer",
    "MetricsEnvironment",
    "bundle_processor",
    "common",
    "create_InputStream",
    "create_OutputStream",
    "create_pardo_operation",
    "create_trigger_driver",
    "memoize",
    "name_context",
    "operations",
    "proto_utils",
    "statesampler",
    "taken_finalizers",
]


def name_context(transform_id: str, proto: beam_runner_api_pb2.PTransform) -> Any:
    """How metrics and errors of Beam's refer to a transform."""
    return common.NameContext(proto.unique_name, transform_id)


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
