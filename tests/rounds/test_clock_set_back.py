"""A job whose machine's clock is set back ten minutes makes checkpoints and drains as before."""

from __future__ import annotations

import threading
import time

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.drain.notification import DrainNotification
from sparkdrain.drain.signal import DrainSignal
from sparkdrain.rounds.driver.durable import DurableJob
from tests.support.in_memory_rounds import InMemoryRounds, plan_of
from tests.support.waiting import wait_until

TEN_MINUTES = 600 * 10**9
SOON = 10.0


def test_a_clock_that_is_set_back_ten_minutes_stops_neither_checkpoints_nor_a_drain(
    tmp_path, monkeypatch
):
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    _ = pipeline | PeriodicImpulse(Timestamp.of(time.time()), fire_interval=0.02) | beam.Map(str)
    durable = DurableJob.at(str(tmp_path), "job", "run", {}, 2, 3)
    rounds = InMemoryRounds(plan_of(pipeline), durable=durable, interval=50_000)
    signal = rounds.loop.drain.signal = DrainSignal()
    running = threading.Thread(target=rounds.run_to_end, daemon=True)
    running.start()
    wait_until(lambda: durable.number)

    wall = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: wall() - TEN_MINUTES)
    before = durable.number
    wait_until(lambda: durable.number > before + 1, SOON)

    signal.request(DrainNotification.create("run", time.time_ns() // 1000))
    running.join(SOON)
    assert not running.is_alive()
    assert rounds.loop.phases.state.is_over
    rounds.close()
