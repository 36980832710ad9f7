"""Makes a Python worker fit for a job, before it runs the job's first task."""

from __future__ import annotations

import importlib
import json
import logging
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import apache_beam
from apache_beam.internal import pickler
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions, SetupOptions
from apache_beam.options.value_provider import RuntimeValueProvider

from sparkdrain import main_classes, redaction, row_types
from sparkdrain.errors import BadSetup
from sparkdrain.fnapi.class_paths import SPARE_JVM
from sparkdrain.fnapi.harness_job import HarnessJob
from sparkdrain.spark_needs import alike
from sparkdrain.stages.spark.files import local_directories, sent_file
from sparkdrain.stages.spark.versions import pyspark_version
from sparkdrain.stages.telling.failure import silence_told_failures
from sparkdrain.stages.telling.job_over import when_over
from sparkdrain.stages.workers.packages import use_packages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sparkdrain.lines.line import Endpoint
    from sparkdrain.stages.telling.log_channel import LogSender

_LOGGER = logging.getLogger(__name__)
_SHARED: Final = "sparkdrain-sdks"


@dataclass(frozen=True, slots=True)
class Preparation:
    """What a worker must know and have before user code is loaded.

    Attributes:
        beam: the version of Beam that made the pipeline.
        spark: the version of PySpark in the program.
        options: the pipeline's options, as JSON.
        log_level: the level of the root logger, a number of ``logging``.
        packages: name of a sent archive with packages, or nothing.
        session: name of a sent file with a main session, or nothing.
        classes: name of a sent file with classes of the main program, or nothing.
        rows: name of a sent file with types of rows, or nothing.
        directory: the program's working directory, for workers on its machine; else nothing.
        staged: names of files that harnesses in other processes need, each with the name under
            which it was sent, or with its path on this machine.
    """

    beam: str
    spark: str
    options: str = field(repr=False)
    log_level: int
    packages: str = ""
    session: str = ""
    classes: str = ""
    rows: str = ""
    directory: str = ""
    staged: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def of(
        options: Mapping[str, Any],
        directory: str = "",
        staged: Mapping[str, str] | None = None,
        **sent: str,
    ) -> Preparation:
        """The preparation that a job of this program asks for.

        Args:
            sent: names of sent files, each by the name of its field.
        """
        level = logging.getLogger().getEffectiveLevel()
        return Preparation(
            apache_beam.__version__,
            pyspark_version(),
            json.dumps(options, sort_keys=True, default=repr),
            level_asked_for(options, level),
            directory=directory,
            staged=tuple((staged or {}).items()),
            **sent,
        )


def level_asked_for(options: Mapping[str, Any], otherwise: int) -> int:
    """What ``--default_sdk_harness_log_level`` says: a number, or the name of a level."""
    asked = str(options.get("default_sdk_harness_log_level") or otherwise)
    number = int(asked) if asked.isdecimal() else logging.getLevelName(asked)
    return number if isinstance(number, int) else otherwise


def go_to(directory: str) -> None:
    """Work in ``directory``, where relative paths of the program lead; stay if it is empty.

    Raises:
        BadSetup: the directory is gone.
    """
    if not directory:
        return
    try:
        os.chdir(directory)
    except OSError as error:
        message = (
            f"The workers cannot work in the program's directory, as it was when the pipeline was "
            f"run: {error}. Keep the directory until the job has ended, or run the pipeline in "
            "another one."
        )
        raise BadSetup(message) from error


def job_of(
    job: str,
    preparation: Preparation,
    over: Endpoint | None = None,
    log: LogSender | None = None,
    *,
    slots: int,
    samples: bool = False,
) -> HarnessJob:
    """What SDK harnesses in other processes need to know of a job.

    Args:
        over: where the driver tells that the job is over; None if this process ends with the job.
        log: takes log records to the driver, and samples; None if the driver takes none.
        slots: how many slots the job has.
        samples: whether the driver takes samples.
    """
    sent = dict(preparation.staged)

    def staged(name: str) -> Path | None:
        return sent_file(sent[name]) if name in sent else None

    options = json.loads(preparation.options)
    shared = None
    # To compile the program of a JVM that can be shared takes longer than a single slot wants.
    if slots > 1 or SPARE_JVM in os.environ:
        # All slots of an executor have the same directories.
        shared = next((each / _SHARED for each in local_directories()), None)

    def when_all_is_told(end: Callable[[], object]) -> None:
        def end_and_flush() -> None:
            end()
            if log is not None:
                log.flush()

        if over is not None:
            when_over(over, end_and_flush)

    return HarnessJob(
        job,
        options,
        staged,
        when_all_is_told,
        log or _to_nobody,
        log if samples else None,
        shared,
        slots,
    )


def _to_nobody(level: int, text: str) -> None:
    """The driver takes no log records."""


def prepare(preparation: Preparation) -> None:
    """Prepare this process.

    Raises:
        BadSetup: this worker cannot be used for the job.
    """
    if apache_beam.__version__ != preparation.beam:
        message = (
            f"The executors have apache-beam {apache_beam.__version__}, but this program has "
            f"{preparation.beam}. Install the same version on both."
        )
        raise BadSetup(message)
    if not alike(pyspark_version(), preparation.spark):
        message = (
            f"The executors have pyspark {pyspark_version()}, but this program has "
            f"{preparation.spark}. Install the same version on both."
        )
        raise BadSetup(message)
    if preparation.packages:
        home = (local_directories() or [Path.cwd()])[0]
        use_packages(sent_file(preparation.packages), home)
    options = json.loads(preparation.options)
    redaction.remember(options)
    _apply(options, preparation.log_level)
    if preparation.classes:
        main_classes.install(sent_file(preparation.classes))
    if preparation.rows:
        row_types.install(sent_file(preparation.rows))
    if preparation.session:
        _load_session(sent_file(preparation.session))


def _apply(options: Mapping[str, Any], log_level: int) -> None:
    """Do what Beam's own worker does with the options when it starts."""
    logging.getLogger().setLevel(log_level)
    silence_told_failures(logging.getLogger("apache_beam.runners.common"))
    for name, level in (options.get("sdk_harness_log_level_overrides") or {}).items():
        logging.getLogger(name).setLevel(level)
    RuntimeValueProvider.set_runtime_options(dict(options))
    # Options that only the main program declares are unknown here: nothing to warn of.
    logging.getLogger("apache_beam.options.pipeline_options").setLevel(logging.ERROR)
    parsed = PipelineOptions.from_dictionary(dict(options))
    FileSystems.set_options(parsed)
    setup = parsed.view_as(SetupOptions)
    pickler.set_library(setup.pickle_library)
    for plugin in setup.beam_plugins or ():
        _import_plugin(plugin)


def _import_plugin(name: str) -> None:
    try:
        importlib.import_module(name)
    except ImportError:
        # The name of a class: what counts is that its module is imported.
        try:
            importlib.import_module(name.rpartition(".")[0])
        except (ImportError, ValueError):
            _LOGGER.warning("The Beam plug-in %s cannot be imported here.", name)


def _load_session(path: Path) -> None:
    try:
        pickler.load_session(str(path))
    except Exception as error:
        message = (
            f"The main session of the program (--save_main_session) cannot be loaded by the "
            f"workers: {error!r}. What the main program imports must be there too: send it with "
            "--extra_package, --setup_file or --requirements_file."
        )
        raise BadSetup(message) from error
