"""Processes of a job are killed while it is DRAINING, in each phase; it goes on to drain."""

from __future__ import annotations

import os
import random

import pytest

from tests.support.killed_drain import PHASES, VICTIMS, KilledDrain, chosen

pytestmark = pytest.mark.spark


@pytest.fixture
def job(tmp_path):
    with KilledDrain(tmp_path) as made:
        yield made


def test_killed_in_each_phase(job):
    """Each kind at least once; hosts rather often, as that takes the least time."""
    job.drain_and_kill(chosen(1, ["driver", "JVM", *["host"] * 6]))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("victim", VICTIMS)
def test_this_one_killed_in_each_phase(job, victim):
    job.drain_and_kill(dict.fromkeys(PHASES, victim))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_by_chance(job):
    seed = int(os.environ.get("KILLS_SEED") or random.SystemRandom().randrange(10**6))
    print(f"KILLS_SEED={seed}", flush=True)
    job.drain_and_kill(chosen(seed, [*VICTIMS] * 3))
