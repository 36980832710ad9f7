"""Beam's suite for portable runners."""

from __future__ import annotations

import pytest
from apache_beam.runners.portability import portable_runner_test
from pipelines import OnSparkDrain


class PortableRunnerSuite(OnSparkDrain, portable_runner_test.PortableRunnerTest):
    """With compiled stages."""


@pytest.mark.slow
class PortableRunnerSuiteNotCompiled(PortableRunnerSuite):
    """Without."""

    compiled = "off"
