from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2 as api
from apache_beam.transforms import environments

from sparkdrain.graph.environments import has_harnesses
from sparkdrain.graph.notices import chosen_environments
from sparkdrain.graph.translate import translate

PROCESS = environments.ProcessEnvironment("sparkdrain worker")
POOL = environments.ExternalEnvironment("localhost:1")
INSIDE = environments.EmbeddedPythonEnvironment()
OWN = environments.DockerEnvironment()
OTHER = environments.DockerEnvironment("apache/beam_python3.9_sdk:2.50.0")
ANYOF = environments.AnyOfEnvironment([POOL, PROCESS])


def told(environment) -> list[str]:
    pipeline = api.Pipeline()
    pipeline.components.environments["e"].CopyFrom(environment.to_runner_api(None))
    pipeline.components.environments["unused"].CopyFrom(PROCESS.to_runner_api(None))
    pipeline.components.transforms["t"].environment_id = "e"
    return list(chosen_environments(pipeline))


@pytest.mark.parametrize(
    ("environment", "where"),
    [
        (PROCESS, common_urns.environments.PROCESS.urn),
        (POOL, common_urns.environments.EXTERNAL.urn),
        (ANYOF, common_urns.environments.PROCESS.urn),
        (environments.AnyOfEnvironment([PROCESS, INSIDE]), "the slots' own processes"),
        (OWN, "the slots' own processes"),
        (OTHER, common_urns.environments.DOCKER.urn),
    ],
)
def test_the_environment_that_was_chosen_is_named(environment, where):
    (text,) = told(environment)
    asked = environment.to_runner_api(None).urn
    assert text == f"Transforms of the environment 'e' ({asked}) run in {where}."


def test_nothing_is_said_of_what_plainly_runs_in_the_slots():
    assert told(INSIDE) == []


@pytest.mark.parametrize(("environment", "has"), [(PROCESS, True), (POOL, True), (INSIDE, False)])
def test_a_plan_has_harnesses_if_a_stage_is_outside_of_its_slot(environment, has):
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Impulse() | beam.Map(str)
    proto = pipeline.to_runner_api(default_environment=environment)
    assert has_harnesses(translate(proto, streaming=True)) == has
