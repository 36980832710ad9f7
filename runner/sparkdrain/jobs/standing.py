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

    from sparkdrain.options import JobSettings

METRICS: Final = "sparkdrain.standby"
"""The namespace of a job's counters about who leads it."""


def standby_for(
    job_name: str,
    settings: JobSettings,
    tell: Callable[[str], object],
    warn: Callable[[str], object],
) -> Standby:
    """One of the drivers of the job, see ``Standby``; close it.

    Raises:
        BadSetup: the metadata store cannot be opened.
    """
    owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
    return Standby(
        STORES.open(settings.metadata_store),
        set_name(job_name, redact(settings.checkpoint_dir)),
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
