"""Beam's suite for portable runners."""

from __future__ import annotations

import functools

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PortableOptions
from apache_beam.runners.portability import portable_runner, portable_runner_test
from apache_beam.runners.portability.fn_api_runner import fn_runner_test
from marked import slow
from pipelines import OnSparkDrain, drained_from_the_start

from sparkdrain.jobs.local import local_server


class PortableRunnerSuite(OnSparkDrain, portable_runner_test.PortableRunnerTest):
    """With compiled stages."""

    # Beam skips these, since "portable runners don't support drain yet".
    test_draining_sdf_with_sdf_initiated_checkpointing = (
        fn_runner_test.FnApiRunnerTest.test_draining_sdf_with_sdf_initiated_checkpointing
    )
    test_sdf_default_truncate_when_bounded = (
        fn_runner_test.FnApiRunnerTest.test_sdf_default_truncate_when_bounded
    )
    test_sdf_default_truncate_when_unbounded = (
        fn_runner_test.FnApiRunnerTest.test_sdf_default_truncate_when_unbounded
    )
    test_sdf_with_truncate = fn_runner_test.FnApiRunnerTest.test_sdf_with_truncate


# They wait for a quarter of a minute each, or are of a kind of which tests are left.
_SLOW = (
    "test_batch_",
    "test_element_to_batch",
    "test_flat",
    "test_multimap_",
    "test_pardo_et_timer_with_no_",
    "test_pardo_side_",
    "test_pardo_unfusable_",
    "test_windowed_",
)
for _name in dir(PortableRunnerSuite):
    if _name.startswith(_SLOW):
        setattr(PortableRunnerSuite, _name, slow(getattr(PortableRunnerSuite, _name)))


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
        fn_runner_test.FnApiRunnerTest.test_draining_sdf_with_sdf_initiated_checkpointing
    )
    test_sdf_default_truncate_when_bounded = drained(
        fn_runner_test.FnApiRunnerTest.test_sdf_default_truncate_when_bounded
    )
    test_sdf_default_truncate_when_unbounded = drained(
        fn_runner_test.FnApiRunnerTest.test_sdf_default_truncate_when_unbounded
    )
    test_sdf_with_truncate = drained(fn_runner_test.FnApiRunnerTest.test_sdf_with_truncate)

    def create_pipeline(self, is_drain: bool = False) -> beam.Pipeline:
        options = self.create_options(*(drained_from_the_start() if is_drain else []))
        portable = options.view_as(PortableOptions)
        portable.job_endpoint = local_server().endpoint
        portable.environment_type = "beam:env:embedded_python:v1"
        return beam.Pipeline(portable_runner.PortableRunner(), options)
