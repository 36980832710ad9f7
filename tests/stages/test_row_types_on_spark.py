"""What is registered with Beam as a row comes out of workers as itself."""

import dataclasses
import os
import subprocess
import sys
import typing
from pathlib import Path

import pytest
import rows_program

pytestmark = pytest.mark.spark

PROGRAM = Path(rows_program.__file__)
MODES = pytest.mark.parametrize("mode", [(), ("--streaming",)], ids=["batch", "streaming"])


@MODES
def test_types_of_a_module(pipeline, mode):
    with pipeline(*mode) as p:
        rows_program.rows(p)


@MODES
def test_types_of_a_function_also_if_another_job_had_others_of_these_names(pipeline, mode):
    for _ in range(2):

        class Place(typing.NamedTuple):
            town: str
            zip: int

            def told(self) -> str:
                return f"{self.zip} {self.town}"

        @dataclasses.dataclass
        class Visit:
            who: str
            place: Place

            def told(self) -> str:
                return f"{self.who} in {self.place.told()}"

        with pipeline(*mode) as p:
            rows_program.rows(p, Place, Visit)


# Programs are forked alike in both modes.
@pytest.mark.slow
@pytest.mark.parametrize("mode", [(), ("--streaming",)], ids=["batch", "streaming"])
def test_types_of_the_main_program(mode):
    ended = subprocess.run(
        [
            sys.executable,
            PROGRAM,
            "--runner=SparkDrainRunner",
            "--spark_master_url=local[2]",
            *mode,
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
