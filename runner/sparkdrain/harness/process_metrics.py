"""Metrics that user code counts for the whole process (``process_wide=True``), in this process."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from sparkdrain.harness.beam import MetricsEnvironment

if TYPE_CHECKING:
    from apache_beam.portability.api import metrics_pb2

_LOCK: Final = threading.Lock()


def taken() -> list[metrics_pb2.MonitoringInfo]:
    """What this process has counted since the last call. Each count is given out once.

    A count that another thread of user code adds at this very moment may be left out.
    """
    container = MetricsEnvironment.process_wide_container()
    if not container.metrics:
        return []
    with _LOCK:
        cells, container.metrics = container.metrics, {}
    infos = (cell.to_runner_api_monitoring_info(of.metric_name, None) for of, cell in cells.items())
    return [info for info in infos if info is not None]
