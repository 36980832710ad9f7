from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.transforms import environments

from sparkdrain.fnapi.harness import Outside
from sparkdrain.fnapi.harnesses import Harnesses, HarnessJob
from sparkdrain.loopback import loopback_pool
from tests.support.in_memory import run_in_memory
from tests.support.in_memory_rounds import InMemoryRounds, plan_of
from tests.support.seen import SEEN


@pytest.fixture(scope="module")
def harnesses():
    made = Harnesses()
    yield made
    made.close()


@pytest.fixture
def run(harnesses):
    """Runs a pipeline in a pool's harnesses; the slots' reports, and what user code has seen."""

    def run(build, slots=2):
        SEEN.clear()
        pipeline = beam.Pipeline()
        build(pipeline)
        environment = environments.ExternalEnvironment(
            loopback_pool(), capabilities=environments.python_sdk_capabilities()
        )
        outside = Outside(HarnessJob("job", {}), harnesses)
        reports = run_in_memory(pipeline, slots, environment=environment, outside=outside)
        return reports, sorted(SEEN, key=repr)

    return run


@pytest.fixture
def stream(harnesses):
    """Runs a pipeline as a stream in a pool's harnesses; its rounds, which have ended."""

    def stream(build, begin=lambda rounds: None, capabilities=None, **settings):
        pipeline = beam.Pipeline()
        build(pipeline)
        capable = environments.python_sdk_capabilities() if capabilities is None else capabilities
        environment = environments.ExternalEnvironment(loopback_pool(), capabilities=capable)
        outside = Outside(HarnessJob("job", {}), harnesses)
        rounds = InMemoryRounds(plan_of(pipeline, environment), outside=outside, **settings)
        try:
            begin(rounds)
            rounds.run_to_end()
        finally:
            rounds.close()
        return rounds

    return stream
