"""Java's SDK harness is started from the jars that a pipeline stages."""

from __future__ import annotations

import json
import zipfile

import pytest
from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.fnapi.errors import HarnessNotStarted
from sparkdrain.fnapi.java import java_class_path, java_variables
from sparkdrain.fnapi.worker import SdkWorker
from sparkdrain.graph.environments import DOCKER, STAGED_JAVA, chosen
from tests.support.lives import Ending


def _jar(path, *classes):
    with zipfile.ZipFile(path, "w") as jar:
        for name in classes:
            jar.writestr(name, b"")
    return path


def test_the_class_path_has_the_jars_by_their_names_in_their_order(tmp_path):
    sent = {
        "user.jar": _jar(tmp_path / "sent-1", "Main.class"),
        "harness.jar": _jar(tmp_path / "sent-2", "org/apache/beam/fn/harness/FnHarness.class"),
    }
    path = java_class_path(sent, tmp_path).split(":")
    assert [name.rpartition("/")[2] for name in path] == ["user.jar", "harness.jar"]
    assert all(zipfile.is_zipfile(name) for name in path)


def test_a_harness_reads_who_it_is_and_its_options(tmp_path):
    variables = java_variables({"app": "a"}, "id", "127.0.0.1:1", tmp_path)
    assert variables["HARNESS_ID"] == "id"
    # Harnesses that share a JVM would each take a fifth of its memory for what they cache.
    with open(variables["PIPELINE_OPTIONS_FILE"]) as file:
        assert json.load(file) == {
            "beam:option:app:v1": "a",
            "beam:option:max_cache_memory_usage_mb:v1": "100",
        }


@pytest.mark.parametrize(
    "given",
    [
        {"max_cache_memory_usage_mb": "7"},
        {"max_cache_memory_usage_percent": "5.0"},
        {"max_cache_memory_usage_mb_class": "mine.Cache"},
    ],
)
def test_a_user_says_how_much_state_a_harness_may_keep(tmp_path, given):
    variables = java_variables(given, "id", "127.0.0.1:1", tmp_path)
    with open(variables["PIPELINE_OPTIONS_FILE"]) as file:
        assert json.load(file) == {f"beam:option:{n}:v1": each for n, each in given.items()}


def test_a_harness_that_was_not_staged_is_named(tmp_path):
    sent = {"user.jar": _jar(tmp_path / "sent", "Main.class")}
    with pytest.raises(HarnessNotStarted, match="beam-sdks-java-harness"):
        java_class_path(sent, tmp_path)


def _java(*dependencies, image="apache/beam_java17_sdk:2.73.0"):
    payload = beam_runner_api_pb2.DockerPayload(container_image=image)
    return beam_runner_api_pb2.Environment(
        urn=DOCKER,
        payload=payload.SerializeToString(),
        capabilities=["beam:version:sdk_base:apache/beam_java17_sdk:2.73.0"],
        dependencies=dependencies,
    )


@pytest.mark.parametrize(
    "image", ["apache/beam_java17_sdk:2.73.0", "docker.io/apache/beam_java11_sdk"]
)
def test_an_image_of_beams_for_java_is_not_needed_if_its_jars_are_staged(image):
    jar = beam_runner_api_pb2.ArtifactInformation(type_urn="beam:artifact:type:file:v1")
    assert chosen(_java(jar, image=image)).urn == STAGED_JAVA
    assert chosen(_java(image=image)).urn == DOCKER


def test_an_image_of_the_users_own_is_what_code_needs():
    jar = beam_runner_api_pb2.ArtifactInformation(type_urn="beam:artifact:type:file:v1")
    assert chosen(_java(jar, image="registry.example/apache/beam_java17_sdk:2.73.0")).urn == DOCKER


TOO_NEW = (
    "Caused by: java.lang.UnsupportedClassVersionError: a/Mine$Add has been compiled by a more "
    "recent version of the Java Runtime (class file version 69.0), this version of the Java Runtime"
    " only recognizes class file versions up to 61.0"
)


@pytest.mark.parametrize("ended", ["", f"The process ended with status 1. {TOO_NEW}"])
def test_a_class_for_a_newer_java_ends_the_job_at_once_with_both_versions(ended):
    worker = SdkWorker("1", Ending(lambda: ended, TOO_NEW))
    worker.is_lost = True
    with pytest.raises(
        HarnessNotStarted, match=r"a.Mine\$Add needs Java 25.*has Java 17.*JAVA_HOME"
    ):
        worker.wait()
