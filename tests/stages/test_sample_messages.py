"""Samples of elements become messages of a job: some at once, then fewer and fewer."""

from __future__ import annotations

from itertools import pairwise

from apache_beam.portability.api import beam_job_api_pb2

from sparkdrain.stages.telling.log_channel import SampleMessages

BASIC = beam_job_api_pb2.JobMessage.JOB_MESSAGE_BASIC


def test_each_step_tells_three_at_once_and_then_one_each_time_the_wait_has_doubled():
    told: list[tuple[int, str]] = []
    now = 0.0
    take = SampleMessages(lambda *message: told.append(message), lambda: now)
    times: list[float] = []
    for second in range(4 * 3600):
        now = float(second)
        before = len(told)
        for slot in range(5):
            take("Parse", f"{second} {slot}")
        times += [now] * (len(told) - before)
    assert told[0] == (BASIC, "Sample of Parse: 0 0")
    assert times[:6] == [0, 0, 0, 10, 30, 70]
    waits = [after - before for before, after in pairwise(times[5:])]
    assert waits == [80, 160, 320, 640, 1280, 2560, 3600, 3600]
    take("Other", "x")
    assert told[-1] == (BASIC, "Sample of Other: x")
