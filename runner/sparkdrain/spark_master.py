"""Which Spark to use: what the user says, what Spark's own set-up says, or our default."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from typing import TYPE_CHECKING

from apache_beam.options.pipeline_options import PipelineOptions, SparkRunnerOptions

from sparkdrain.errors import BadOption

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_MASTER = "local[*]"


def given_master(options: PipelineOptions) -> str | None:
    """The Spark master that the user asked for, or None.

    Beam's ``--spark_master_url`` has a default (``local[4]``) that says nothing about what the user
    wants, so the flags are looked at, not only the value. Set from code to exactly that default it
    counts as not given.

    Raises:
        BadOption: the master is empty.
    """
    parser = ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument("--spark_master_url")
    # Beam keeps what was typed in `_flags` (None: the process's own command line).
    typed = parser.parse_known_args(options._flags)[0].spark_master_url  # noqa: SLF001
    value = options.view_as(SparkRunnerOptions).spark_master_url
    if typed is None and value == beam_default_master():
        return None
    if not isinstance(value, str) or not value.strip():
        message = (
            "--spark_master_url is empty. Give local[n], spark://host:port, yarn or k8s://url, "
            f"or leave it out for {DEFAULT_MASTER}."
        )
        raise BadOption(message)
    return value


def beam_default_master() -> str:
    """What Beam puts into ``spark_master_url`` when the user said nothing."""
    return SparkRunnerOptions([]).spark_master_url


def spark_is_set_up(environ: Mapping[str, str]) -> bool:
    """Whether ``spark-submit``, or its defaults, have fixed a master already.

    An active session is not asked about here: the engine uses it whatever the settings say.
    """
    if "PYSPARK_GATEWAY_PORT" in environ or "MASTER" in environ:
        return True
    submit = environ.get("PYSPARK_SUBMIT_ARGS", "").replace("=", " ").split()
    return "--master" in submit or "spark.master" in submit or _defaults_name_master(environ)


def _defaults_name_master(environ: Mapping[str, str]) -> bool:
    home = environ.get("SPARK_HOME")
    directory = environ.get("SPARK_CONF_DIR") or (os.path.join(home, "conf") if home else None)
    if not directory:
        return False
    try:
        with open(os.path.join(directory, "spark-defaults.conf"), encoding="utf-8") as lines:
            return any(line.replace("=", " ").split()[:1] == ["spark.master"] for line in lines)
    except OSError:
        return False
