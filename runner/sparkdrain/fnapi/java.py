"""Java's SDK harness, started from the jars that the pipeline brings, without a container."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import json_format, text_format

from sparkdrain.fnapi.descriptor import descriptor_of
from sparkdrain.fnapi.errors import HarnessNotStarted
from sparkdrain.fnapi.provision import RUNNER_CAPABILITIES, options_struct, with_cache
from sparkdrain.fnapi.public_name import public_name

if TYPE_CHECKING:
    from collections.abc import Mapping

JAVA_HARNESS: Final = "Java's SDK harness"
"""What messages call it."""
JAVA_MAIN: Final = "org.apache.beam.fn.harness.FnHarness"
_CLASS: Final = JAVA_MAIN.replace(".", "/") + ".class"
_TOO_NEW: Final = re.compile(
    r"(\S+) has been compiled by a more recent version of the Java Runtime "
    r"\(class file version (\d+)\.\d+\), "
    r"this version of the Java Runtime only recognizes class file versions up to (\d+)"
)
# Has Unix sockets.
_SHARES: Final = 16
# Of the class files of Java 1.
_BEFORE_JAVA_1: Final = 44


def java_class_path(jars: Mapping[str, Path], folder: Path) -> str:
    """The class path of a harness: the staged files under the names that they were staged with.

    Args:
        jars: the staged files, by name.
        folder: for links to them.

    Raises:
        HarnessNotStarted: the harness is not among the jars.
    """
    # Beam's own jar of the harness says so in its name. Others take time to look through.
    likely_first = sorted(jars, key=lambda name: "harness" not in name)
    if not any(_has_harness(jars[name]) for name in likely_first):
        message = (
            f"None of the {len(jars)} files that the pipeline has staged has {JAVA_MAIN}, which "
            "runs Java transforms. Add the artifact org.apache.beam:beam-sdks-java-harness, in the "
            "version of the pipeline's Beam, to the class path of the program."
        )
        raise HarnessNotStarted(message)
    named = folder / "jars"
    named.mkdir()
    for name, path in jars.items():
        (named / name).symlink_to(path)
    return os.pathsep.join(str(named / name) for name in jars)


def java_variables(
    options: Mapping[str, Any], worker_id: str, endpoint: str, folder: Path
) -> dict[str, str]:
    """What a harness reads of its environment.

    Args:
        options: the pipeline's options, by plain name.
        endpoint: the address of the slot's services.
        folder: for the options.
    """
    file = folder / "options.json"
    given = options_struct(with_cache(options))
    file.write_text(json.dumps(json_format.MessageToDict(given)))
    here = text_format.MessageToString(descriptor_of(endpoint), as_one_line=True)
    return {
        "HARNESS_ID": worker_id,
        "CONTROL_API_SERVICE_DESCRIPTOR": here,
        "STATUS_API_SERVICE_DESCRIPTOR": here,
        "LOGGING_API_SERVICE_DESCRIPTOR": here,
        "PIPELINE_OPTIONS_FILE": str(file),
        "RUNNER_CAPABILITIES": " ".join(RUNNER_CAPABILITIES),
        # Of the slot's threads, in a JVM that slots share.
        "SPARKDRAIN_GROUP": thread_group(worker_id),
    }


def thread_group(worker_id: str) -> str:
    """The name of the group of a harness's threads, which is no secret as the id is."""
    return f"sparkdrain-{public_name(worker_id)}"


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


def can_share(java: str) -> bool:
    """Whether a Java runs ``SharedHarness.java``: it is Java 16 or later, and has a compiler.

    Args:
        java: the program.
    """
    program = shutil.which(java)
    with contextlib.suppress(OSError):
        about = Path(program or java).resolve().parent.parent.joinpath("release").read_text("utf-8")
        version = re.search(r'^JAVA_VERSION="(\d+)', about, re.MULTILINE)
        modules = re.search(r"^MODULES=.*\bjdk\.compiler\b", about, re.MULTILINE)
        return version is not None and int(version[1]) >= _SHARES and modules is not None
    return False


def java_program() -> str:
    """The Java that executors have for Spark."""
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else "java"


def _has_harness(jar: Path) -> bool:
    if not zipfile.is_zipfile(jar):
        return False
    with zipfile.ZipFile(jar) as archive:
        return _CLASS in archive.NameToInfo
