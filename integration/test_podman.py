"""Stages of Python and of Java in containers that podman runs, from images made here."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.external import JavaExternalTransform
from containers import JAVA_IMAGE, NEEDED, PYTHON_IMAGE, Engine
from java_expansion import expansion_service

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def engine(tmp_path_factory) -> Iterator[Engine]:
    """A ``docker`` on the PATH."""
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if missing or os.getuid() != 0:
        pytest.skip(f"needs root, and {', '.join(missing) or 'nothing else'}")
    engine = Engine(tmp_path_factory.mktemp("engine"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{engine.path}:{os.environ['PATH']}")
        yield engine
    engine.close()


def test_python_stages_run_in_containers_that_are_gone_afterwards(on, engine):
    engine.make_python()

    def where(_: object) -> str:
        return os.environ.get("IN_IMAGE", "nowhere")

    flags = ["--environment_type=DOCKER", f"--environment_config={PYTHON_IMAGE}"]
    with on("local[2]", *flags) as pipeline:
        pairs = pipeline | beam.Create([(n % 3, n) for n in range(300)])
        sums = pairs | beam.CombinePerKey(sum)
        assert_that(sums, equal_to([(key, sum(range(key, 300, 3))) for key in range(3)]))
        images = pairs | beam.Map(where) | beam.Distinct()
        assert_that(images, equal_to(["python"]), "in the image")
    assert engine.running() == []


def test_java_stages_run_in_containers(on, engine, tmp_path):
    engine.make_java()
    with (
        expansion_service(tmp_path, JAVA_IMAGE) as service,
        on("local[2]") as pipeline,
    ):
        pairs = pipeline | beam.Create([("a", n) for n in range(100)]).with_output_types(
            tuple[str, int]
        )
        totals = pairs | JavaExternalTransform("Totals", service).of(2)
        assert_that(totals | beam.Map(lambda pair: pair), equal_to([("a", 9900)]))
    assert engine.has_run(JAVA_IMAGE)
    assert engine.running() == []
