"""The metrics of a streaming job, as far as its rounds are committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apache_beam.metrics import monitoring_infos
from apache_beam.portability.api import metrics_pb2

from sparkdrain.drain.progress import METRICS
from sparkdrain.metrics.merge import merge

if TYPE_CHECKING:
    from sparkdrain.rounds.driver.schedule import Schedule

FOREIGN_MESSAGES: Final = "foreign_messages"
"""Counts drain messages of other runs that slots have dropped."""


def counted(schedule: Schedule) -> list[metrics_pb2.MonitoringInfo]:
    """The sums over all slots. Rounds that were undone do not count."""
    infos = merge(
        metrics_pb2.MonitoringInfo.FromString(info)
        for report in schedule.reports()
        for info in report.metrics
    )
    if schedule.strangers:
        infos.append(
            monitoring_infos.int64_user_counter(
                METRICS, FOREIGN_MESSAGES, schedule.strangers, ptransform=""
            )
        )
    return infos
