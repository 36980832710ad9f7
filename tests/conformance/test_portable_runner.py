"""Beam's suite for portable runners."""

from __future__ import annotations

import functools

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions
from apache_beam.runners.portability import portable_runner, portable_runner_test
from apache_beam.runners.portability.fn_api_runner.fn_runner_test import FnApiRunnerTest
from pipelines import OnSparkDrain, drained_from_the_start, flags

from sparkdrain.jobs.local import local_server

_Beams = FnApiRunnerTest
del FnApiRunnerTest  # else pytest would collect it


class PortableRunnerSuite(OnSparkDrain, portable_runner_test.PortableRunnerTest):
    """With compiled stages."""

    # Beam skips these, since "portable runners don't support drain yet".
    test_draining_sdf_with_sdf_initiated_checkpointing = (
        _Beams.test_draining_sdf_with_sdf_initiated_checkpointing
    )
    test_sdf_default_truncate_when_bounded = _Beams.test_sdf_default_truncate_when_bounded
    test_sdf_default_truncate_when_unbounded = _Beams.test_sdf_default_truncate_when_unbounded
    test_sdf_with_truncate = _Beams.test_sdf_with_truncate


@pytest.mark.slow
class PortableRunnerSuiteNotCompiled(PortableRunnerSuite):
    """Without."""

    compiled = "off"


def drained(test):
    """``test`` by Beam's client, which raises for every end of a job but DONE."""

    @functools.wraps(test)
    def run(self):
        with pytest.raises(RuntimeError, match="failed in state DRAINED"):
            test(self)

    return run


@pytest.mark.slow
class BeamsClientSuite(PortableRunnerSuite):
    """Submitted by Beam's own client, which knows no more of us than where a job service is.

    A job that finds other elements than its test expects ends as FAILED, drained or not.
    """

    test_draining_sdf_with_sdf_initiated_checkpointing = drained(
        _Beams.test_draining_sdf_with_sdf_initiated_checkpointing
    )
    test_sdf_default_truncate_when_bounded = drained(_Beams.test_sdf_default_truncate_when_bounded)
    test_sdf_default_truncate_when_unbounded = drained(
        _Beams.test_sdf_default_truncate_when_unbounded
    )
    test_sdf_with_truncate = drained(_Beams.test_sdf_with_truncate)

    def create_pipeline(self, is_drain: bool = False) -> beam.Pipeline:
        options = self.create_options()
        if is_drain:
            options = PipelineOptions([*flags(self.compiled), *drained_from_the_start()])
        portable = options.view_as(PortableOptions)
        portable.job_endpoint = local_server().endpoint
        portable.environment_type = "beam:env:embedded_python:v1"
        return beam.Pipeline(portable_runner.PortableRunner(), options)
