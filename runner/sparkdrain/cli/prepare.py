"""``sparkdrain prepare``: has Spark start faster in this Python environment, from now on."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.markup import escape

from sparkdrain.errors import BadSetup
from sparkdrain.setup_check import check_java
from sparkdrain.stages.cluster.class_data import (
    JAVA_OPTIONS,
    class_data_file,
    writing_class_data,
)
from sparkdrain.stages.workers.head_start import importable

if TYPE_CHECKING:
    from collections.abc import Sequence

_SECONDS: Final = 300
_TOLD: Final = 2000


def prepare(
    _arguments: object = None, console: Console | None = None, directory: Path | None = None
) -> int:
    """Write class data for the Java and the Spark of this machine; 0 if that went well.

    Args:
        console: where to tell about it.
        directory: see ``class_data_file``.
    """
    console = console or Console()
    try:
        check_java(os.environ, _printed)
        file = class_data_file(os.environ, directory)
        file.parent.mkdir(parents=True, exist_ok=True)
        # Beside its place, so that it appears there at once and whole.
        with tempfile.TemporaryDirectory(dir=file.parent) as scratch:
            written = Path(scratch, file.name)
            _rehearse(written)
            size = written.stat().st_size
            written.chmod(0o644)
            os.replace(written, file)
    except (BadSetup, OSError, subprocess.TimeoutExpired) as error:
        console.print(f"[red]{escape(str(error))}", soft_wrap=True)
        return 1
    told = f"Spark starts faster from now on. Class data: {file} ({size / 2**20:.0f} MiB)."
    console.print(escape(told), soft_wrap=True)
    return 0


def _rehearse(written: Path) -> None:
    """Run a pipeline in a process of its own, whose JVM writes the file when it ends.

    Raises:
        BadSetup: there is no such file.
    """
    command = [sys.executable, "-m", "sparkdrain.cli.prepare", writing_class_data(written)]
    # The JVM holds these streams, too. It has ended, not only the program, when they are closed.
    printed = _printed(command)
    if not written.is_file():
        message = f"Java has written no class data. The rehearsal printed: {printed[-_TOLD:]}"
        raise BadSetup(message)


def _printed(command: Sequence[str]) -> str:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(importable())}
    done = subprocess.run(  # noqa: S603 (java -version, or this very Python)
        command, capture_output=True, text=True, timeout=_SECONDS, check=False, env=environ
    )
    return done.stderr + done.stdout


def _run_pipeline(java_options: str) -> None:
    """Run a pipeline that makes Spark load what pipelines need, in a new JVM with these options."""
    import apache_beam as beam  # noqa: PLC0415 (the command itself does without)
    from apache_beam.options.pipeline_options import PipelineOptions  # noqa: PLC0415

    from sparkdrain.stages.batch.rehearsal import build  # noqa: PLC0415

    flags = [
        "--runner=sparkdrain.SparkDrainRunner",
        "--spark_master_url=local[2]",
        "--progress=off",
        f"--spark_conf={JAVA_OPTIONS}={java_options}",
    ]
    with beam.Pipeline(options=PipelineOptions(flags)) as pipeline:
        build(pipeline)


if __name__ == "__main__":
    _run_pipeline(sys.argv[1])
