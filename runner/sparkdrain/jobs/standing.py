"""Makes a job's part among the drivers that stand by for it."""

from __future__ import annotations

import os
import secrets
import socket
from typing import TYPE_CHECKING, Final

from apache_beam.metrics import monitoring_infos

from sparkdrain.coordination.stores import STORES
from sparkdrain.redaction import redact
from sparkdrain.standby.drivers import set_name
from sparkdrain.standby.standby import Standby

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from apache_beam.portability.api import metrics_pb2

    from sparkdrain.jobs.served import Submission

METRICS: Final = "sparkdrain.standby"
"""The namespace of a job's counters about who leads it."""


def standby_for(
    submission: Submission, tell: Callable[[str], object], warn: Callable[[str], object]
) -> Standby | None:
    """One of the drivers of the job, see ``Standby``; close it. None if the job has but one.

    Raises:
        BadSetup: the metadata store cannot be opened.
    """
    settings = submission.settings
    if not settings.standby:
        return None
    owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
    return Standby(
        STORES.open(settings.metadata_store),
        set_name(submission.name, redact(settings.checkpoint_dir)),
        owner,
        settings.standby_lease_ms / 1000,
        settings.recoveries,
        tell,
        warn,
    )


def leading_infos(counts: Mapping[str, int]) -> list[metrics_pb2.MonitoringInfo]:
    """Counters in ``METRICS``, as ``Standby.metrics`` has them."""
    return [
        monitoring_infos.int64_user_counter(METRICS, name, count) for name, count in counts.items()
    ]
