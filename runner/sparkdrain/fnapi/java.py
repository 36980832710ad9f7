"""Java's SDK harness, started from the jars that the pipeline brings, without a container."""

from __future__ import annotations

import json
import os
import re
import zipfile
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import json_format, text_format

from sparkdrain.fnapi.descriptor import descriptor_of
from sparkdrain.fnapi.errors import HarnessNotStarted
from sparkdrain.fnapi.provision import RUNNER_CAPABILITIES, options_struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_MAIN: Final = "org.apache.beam.fn.harness.FnHarness"
_CLASS: Final = _MAIN.replace(".", "/") + ".class"
_TOO_NEW: Final = re.compile(
    r"(\S+) has been compiled by a more recent version of the Java Runtime "
    r"\(class file version (\d+)\.\d+\), "
    r"this version of the Java Runtime only recognizes class file versions up to (\d+)"
)
# Of the class files of Java 1.
_BEFORE_JAVA_1: Final = 44


def java_command(
    jars: Mapping[str, Path],
    options: Mapping[str, Any],
    worker_id: str,
    endpoint: str,
    folder: Path,
) -> tuple[list[str], dict[str, str]]:
    """What starts a harness: a command, and the variables that it reads.

    Args:
        jars: the staged files, by name.
        options: of the pipeline, by plain name.
        endpoint: of the slot's services.
        folder: for the options.

    Raises:
        HarnessNotStarted: the harness is not among the jars.
    """
    # Beam's own jar of the harness says so in its name. Others take time to look through.
    likely_first = sorted(jars, key=lambda name: "harness" not in name)
    if not any(_has_harness(jars[name]) for name in likely_first):
        message = (
            f"None of the {len(jars)} files that the pipeline has staged has {_MAIN}, which runs "
            "Java transforms. Add the artifact org.apache.beam:beam-sdks-java-harness, in the "
            "version of the pipeline's Beam, to the class path of the program."
        )
        raise HarnessNotStarted(message)
    path = os.pathsep.join(_with_names(jars, folder))
    variables = java_variables(options, worker_id, endpoint, folder)
    return [java_program(), "-cp", path, _MAIN], variables


def java_variables(
    options: Mapping[str, Any], worker_id: str, endpoint: str, folder: Path
) -> dict[str, str]:
    """What a harness reads of its environment; the arguments are those of ``java_command``."""
    file = folder / "options.json"
    file.write_text(json.dumps(json_format.MessageToDict(options_struct(options))))
    here = text_format.MessageToString(descriptor_of(endpoint), as_one_line=True)
    return {
        "HARNESS_ID": worker_id,
        "CONTROL_API_SERVICE_DESCRIPTOR": here,
        "STATUS_API_SERVICE_DESCRIPTOR": here,
        "LOGGING_API_SERVICE_DESCRIPTOR": here,
        "PIPELINE_OPTIONS_FILE": str(file),
        "RUNNER_CAPABILITIES": " ".join(RUNNER_CAPABILITIES),
    }


def newer_java(words: str) -> str:
    """What to do if Java was too old for a class, given what it wrote; "" if it was not."""
    found = _TOO_NEW.search(words)
    if found is None:
        return ""
    needed, there = (int(number) - _BEFORE_JAVA_1 for number in found.group(2, 3))
    return (
        f"The class {found[1].replace('/', '.')} needs Java {needed}, and the executor has Java "
        f"{there}. Compile the program with --release {there}, or set JAVA_HOME to a Java {needed} "
        "where executors run; with local[N], where the Job service runs."
    )


def java_program() -> str:
    """The Java that executors have for Spark."""
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else "java"


def _with_names(jars: Mapping[str, Path], folder: Path) -> Sequence[str]:
    """The jars under the names that they were staged with, in this order."""
    named = folder / "jars"
    named.mkdir()
    for name, path in jars.items():
        (named / name).symlink_to(path)
    return [str(named / name) for name in jars]


def _has_harness(jar: Path) -> bool:
    if not zipfile.is_zipfile(jar):
        return False
    with zipfile.ZipFile(jar) as archive:
        return _CLASS in archive.NameToInfo
