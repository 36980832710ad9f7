"""Makes a job's part among the drivers that stand by for it."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from typing import TYPE_CHECKING, Final

from apache_beam.metrics import monitoring_infos
from apache_beam.portability.api import beam_job_api_pb2
from typing_extensions import override

from sparkdrain.coordination.stores import STORES
from sparkdrain.redaction import redact
from sparkdrain.standby.drivers import set_name
from sparkdrain.standby.standby import Followed, Standby

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apache_beam.portability.api import metrics_pb2

    from sparkdrain.invocation import Observer
    from sparkdrain.options import JobSettings

_M = beam_job_api_pb2.JobMessage

METRICS: Final = "sparkdrain.standby"
"""The namespace of a job's counters about who leads it."""


class StandingMessages(Followed):
    """Tells a job's observer.

    Args:
        shows: whether to write what is no warning where progress is shown.
    """

    def __init__(self, observer: Observer, *, shows: bool) -> None:
        self._observer = observer
        self._shows = shows

    @override
    def told(self, text: str) -> None:
        self._observer.message(_M.JOB_MESSAGE_BASIC, text)
        if self._shows:
            # Beside the lines that tell of rounds.
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()

    @override
    def warned(self, text: str) -> None:
        self._observer.message(_M.JOB_MESSAGE_WARNING, text)


def standby_for(job_name: str, settings: JobSettings, observer: Observer) -> Standby:
    """One of the drivers of the job; close it.

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
        StandingMessages(observer, shows=settings.progress != "off"),
    )


def leading_infos(counts: Mapping[str, int]) -> list[metrics_pb2.MonitoringInfo]:
    """Counters in ``METRICS``, as ``Standby.metrics`` has them."""
    return [
        monitoring_infos.int64_user_counter(METRICS, name, count) for name, count in counts.items()
    ]
