"""One law: whenever a job dies, and however often, it ends with what it would have made unharmed.

What it has made is read from what slots report, so it is that which checkpoints cover: everything
counts once.
"""

from __future__ import annotations

import shutil
import tempfile
import time

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sparkdrain.checkpoints.upload import Uploader
from sparkdrain.rounds import open_slot
from sparkdrain.rounds.durable import DurableJob
from tests.support.in_memory import run_in_memory
from tests.support.in_memory_rounds import InMemoryRounds, plan_of
from tests.support.random_pipelines import (
    EACH,
    GROUPED,
    WINDOWS,
    build,
    created,
    results,
    sound,
    streamed,
    streams,
)


class Crash(Exception):
    """The driver and all hosts are gone."""


class AtOnce(Uploader):
    """Has uploaded when it has begun, so that a run can be repeated."""

    def begin(self, number, snapshot) -> None:
        super().begin(number, snapshot)
        while self.poll() is None:
            time.sleep(0.0001)


@pytest.fixture(autouse=True)
def _uploads_at_once(monkeypatch) -> None:
    monkeypatch.setattr(open_slot, "Uploader", AtOnce)


class Fuse:
    """Burns down with every step, and then crashes; ``None`` never does."""

    def __init__(self, steps: int | None) -> None:
        self.left = steps

    def burn(self, *_: object) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Crash


def live(plan, folder, slots, steps):
    """One life of the job; what it has made at its end, or None if it died."""
    fuse = Fuse(steps)
    durable = DurableJob.at(folder, "job", "run", {}, slots, 2)
    publish = durable.publish

    class Burning(DurableJob):
        def publish(self, cut) -> None:
            fuse.burn()
            publish(cut)
            fuse.burn()

    burning = Burning(durable.storage, durable.paths, "run", {}, slots, 2)
    rounds = InMemoryRounds(plan, slots, fail=fuse.burn, durable=burning)
    durable._lease = burning._lease
    try:
        rounds.run_to_end()
    except Crash:
        return None
    finally:
        rounds.close()
    return results(rounds.schedule.reports())


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
)
@given(
    streams(),
    st.sampled_from(sorted(WINDOWS)),
    st.lists(st.sampled_from(sorted(EACH)), max_size=1),
    st.lists(st.sampled_from(sorted(GROUPED)), min_size=1, max_size=2),
    st.integers(1, 2),
    st.lists(st.integers(0, 60), max_size=4),
)
def test_a_job_that_dies_and_goes_on_makes_everything_once(
    stream, windowing, each, grouped, slots, lives
) -> None:
    elements, script = stream
    each, grouped = sound(windowing, each, grouped)
    batch = beam.Pipeline(options=PipelineOptions([]))
    build(batch, created(elements), windowing, each, grouped)
    expected = results(run_in_memory(batch, 2))

    streaming = beam.Pipeline(options=PipelineOptions([]))
    build(streaming, streamed(script), windowing, each, grouped)
    plan = plan_of(streaming)
    folder = tempfile.mkdtemp(prefix="checkpoints-")
    try:
        for steps in [*lives, None]:
            made = live(plan, folder, slots, steps)
            if made is not None:
                break
        assert made == expected
    finally:
        shutil.rmtree(folder)
