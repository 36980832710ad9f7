"""Options of a job on Spark whose user code runs in processes beside the slots."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions


def process_options(**more: Any) -> PipelineOptions:
    """Options of such a job, on two cores of this machine.

    Args:
        more: further options, by name.
    """
    config = {
        "command": f"{sys.executable} -m sparkdrain.cli.main worker",
        "env": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    }
    return PipelineOptions(
        runner="SparkDrainRunner",
        spark_master_url="local[2]",
        environment_type="PROCESS",
        environment_config=json.dumps(config),
        **more,
    )
