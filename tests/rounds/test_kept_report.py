from __future__ import annotations

from dataclasses import replace

import pytest
from apache_beam.metrics import monitoring_infos
from apache_beam.portability.api import metrics_pb2

from sparkdrain.errors import CheckpointFailed
from sparkdrain.rounds.driver.inheritances import kept_form, report_of
from sparkdrain.rounds.messages import RoundReport
from sparkdrain.watermarks.frontier import BEGIN


def report(metrics):
    return RoundReport(
        1,
        2,
        3,
        4,
        {},
        (5, 6),
        frozenset(),
        7,
        metrics,
        dropped=8,
        drained=(True, False),
        passed={9: 1},
    )


def parsed(info):
    # The order of labels is not always the same in bytes.
    return metrics_pb2.MonitoringInfo.FromString(info)


def test_what_a_job_goes_on_from_is_what_was_reported():
    metrics = [monitoring_infos.int64_user_counter("n", "c", 1, ptransform="p").SerializeToString()]
    found = report_of(kept_form(report(metrics)))
    assert replace(found, metrics=metrics) == report(metrics)
    assert list(map(parsed, found.metrics)) == list(map(parsed, metrics))


def test_what_waited_for_the_checkpoint_goes_on_at_once():
    waiting = replace(report([]), waits=True)
    assert report_of(kept_form(waiting)).wake == BEGIN


def test_metrics_of_many_lives_take_no_more_room_than_those_of_one():
    one = monitoring_infos.int64_user_counter("n", "c", 1, ptransform="p").SerializeToString()
    found = report([one])
    for _ in range(10):
        found = report_of(kept_form(report([*found.metrics, one])))
    (info,) = found.metrics
    expected = monitoring_infos.int64_user_counter("n", "c", 11, ptransform="p")
    assert parsed(info) == expected


def test_bytes_that_are_no_report_say_so():
    with pytest.raises(CheckpointFailed, match="report of a slot cannot be read"):
        report_of(b'{"level": 1}')
