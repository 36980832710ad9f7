"""Beam's suite for portable runners, with user code in each kind of environment for Python."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import test_portable_runner
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions
from apache_beam.runners.worker import worker_pool_main
from typing_extensions import override


@pytest.mark.slow
class PortableSuiteLoopback(test_portable_runner.PortableRunnerSuite):
    """In threads of the program."""

    environment = "LOOPBACK", ""

    @override
    def create_options(self, *more: str) -> PipelineOptions:
        options = super().create_options(*more)
        portable = options.view_as(PortableOptions)
        portable.environment_type, portable.environment_config = self.environment
        return options


@pytest.mark.slow
class PortableSuiteProcess(PortableSuiteLoopback):
    """In a process of each slot."""

    # Beam skips it too: it counts warnings, and those of another process are not seen.
    test_batch_rebatch_pardos = None

    environment = (
        "PROCESS",
        json.dumps({"command": f"{Path(sys.executable).with_name('sparkdrain')} worker"}),
    )


@pytest.mark.slow
class PortableSuiteExternal(PortableSuiteLoopback):
    """In processes of a pool that runs already."""

    test_batch_rebatch_pardos = None

    @override
    @classmethod
    def setUpClass(cls) -> None:
        # The pool runs what is called python.
        cls.patch = pytest.MonkeyPatch()
        cls.patch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        address, cls.pool = worker_pool_main.BeamFnExternalWorkerPoolServicer.start(
            use_process=True
        )
        cls.environment = "EXTERNAL", address

    @override
    @classmethod
    def tearDownClass(cls) -> None:
        cls.pool.stop(1)
        cls.patch.undo()
