"""A Java program whose classes need a newer Java than executors have."""

from __future__ import annotations

import shutil
import zipfile

import pytest
from java_program import class_path, compiled, ran

from tests.support.server_process import server_process

JAVA_99 = (99 + 44).to_bytes(2, "big")


def for_java_99(jar, into):
    """The same jar; what runs in executors says that it was compiled for Java 99."""
    with zipfile.ZipFile(jar) as old, zipfile.ZipFile(into, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if "$" in name:  # the DoFns are nested
                data = data[:6] + JAVA_99 + data[8:]
            new.writestr(name, data)
    return into


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_classes_for_a_newer_java_end_the_job_with_both_versions_and_what_to_do(tmp_path):
    if shutil.which("javac") is None:
        pytest.skip("there is no Java compiler here")
    jar = compiled(tmp_path)
    newer = for_java_99(jar, tmp_path / "newer.jar")
    staged = ",".join(map(str, [newer, *class_path()]))
    with server_process("--warm=off") as (_process, endpoint):
        done = ran(jar, endpoint, "--numbers=10", f"--filesToStage={staged}")
    assert done.returncode != 0
    told = done.stdout + done.stderr
    assert "needs Java 99, and the executor has Java" in told
    assert "Compile the program with --release" in told
    assert "the job is run again" not in told
