"""What a slot reported, as a checkpoint keeps it: readable by later releases, and by people."""

from __future__ import annotations

import base64
import json

from apache_beam.portability.api import metrics_pb2

from sparkdrain.errors import CheckpointFailed
from sparkdrain.metrics.merge import merge
from sparkdrain.rounds.messages import RoundReport
from sparkdrain.watermarks.frontier import BEGIN


def kept_form(report: RoundReport) -> bytes:
    """What must be known of a report to go on from there."""
    fields = {
        "level": report.level,
        "slot": report.slot,
        "round": report.number,
        "attempt": report.attempt,
        "outputs": report.outputs,
        # The report is read from a checkpoint: what waited for that checkpoint need not wait then.
        "wake": BEGIN if report.waits else report.wake,
        "dropped": report.dropped,
        "drained": report.drained,
        "passed": list(report.passed.items()),
        "metrics": [base64.b64encode(info).decode() for info in report.metrics],
    }
    return json.dumps(fields).encode()


def report_of(kept: bytes) -> RoundReport:
    """The inverse of ``kept_form``.

    Raises:
        CheckpointFailed: the bytes are no report.
    """
    try:
        fields = json.loads(kept)
        metrics = merge(
            metrics_pb2.MonitoringInfo.FromString(base64.b64decode(info))
            for info in fields["metrics"]
        )
        return RoundReport(
            level=fields["level"],
            slot=fields["slot"],
            number=fields["round"],
            attempt=fields["attempt"],
            inputs={},
            outputs=tuple(fields["outputs"]),
            sent=frozenset(),
            wake=fields["wake"],
            # Each life adds its own to those of the lives before.
            metrics=[info.SerializeToString() for info in metrics],
            dropped=fields["dropped"],
            drained=tuple(fields.get("drained", ())),
            passed=dict(fields.get("passed", ())),
        )
    except (ValueError, KeyError, TypeError) as error:
        message = f"the checkpoint's report of a slot cannot be read: {error!r}"
        raise CheckpointFailed(message) from error
