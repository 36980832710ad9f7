"""Workers end the harnesses of a job in order before the job is said to be over."""

from __future__ import annotations

import threading
import time

from sparkdrain.fnapi.process import STOP_SECONDS
from sparkdrain.lines.server import UnixBind
from sparkdrain.stages.telling.job_over import END_SECONDS, JobOver, when_over


def test_all_who_wait_have_ended_what_they_have_when_the_driver_goes_on(tmp_path):
    over = JobOver(UnixBind(str(tmp_path)))
    ended = []

    def end(name):
        time.sleep(0.2)
        ended.append(name)

    for name in ("one", "two"):
        when_over(over.endpoint, lambda name=name: end(name))
    assert not ended
    over.tell()
    assert sorted(ended) == ["one", "two"]


def test_a_job_that_nobody_waits_for_is_over_at_once(tmp_path):
    over = JobOver(UnixBind(str(tmp_path)))
    began = time.monotonic()
    over.tell()
    assert time.monotonic() - began < 3


def test_who_comes_when_the_job_is_over_is_not_kept(tmp_path):
    over = JobOver(UnixBind(str(tmp_path)))
    over.tell()
    called = threading.Event()
    when_over(over.endpoint, called.set)
    assert not called.is_set()


def test_a_driver_waits_longer_than_a_harness_has_to_tear_down():
    # A harness that is asked to end, and does not, is ended after that; then its processes.
    assert END_SECONDS >= STOP_SECONDS + 2
