"""Beam's suite for portable runners."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PortableOptions
from apache_beam.runners.portability import portable_runner, portable_runner_test
from pipelines import OnSparkDrain

from sparkdrain.jobs.local import local_server


class PortableRunnerSuite(OnSparkDrain, portable_runner_test.PortableRunnerTest):
    """With compiled stages."""


@pytest.mark.slow
class PortableRunnerSuiteNotCompiled(PortableRunnerSuite):
    """Without."""

    compiled = "off"


@pytest.mark.slow
class BeamsClientSuite(PortableRunnerSuite):
    """Submitted by Beam's own client, which knows no more of us than where a job service is."""

    def create_pipeline(self, is_drain: bool = False) -> beam.Pipeline:
        options = self.create_options()
        portable = options.view_as(PortableOptions)
        portable.job_endpoint = local_server().endpoint
        portable.environment_type = "beam:env:embedded_python:v1"
        return beam.Pipeline(portable_runner.PortableRunner(), options)
