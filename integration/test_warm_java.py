"""At a warm server a JVM waits for the next program in Java, with the jars of the last one."""

from __future__ import annotations

import logging
import shutil
import subprocess
import time

import pytest
from java_program import class_path, command, compiled

from sparkdrain.fnapi import class_paths
from sparkdrain.fnapi.spare_jvm import start_spare_jvm
from tests.support.server_process import server_process
from tests.support.waiting import wait_until


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_the_second_program_has_the_jvm_that_waited_and_finds_what_it_expects(tmp_path, room):
    if shutil.which("javac") is None:
        pytest.skip("there is no Java compiler here")
    jar = compiled(tmp_path)
    warm = f"--server-dir={tmp_path / 'server'}", "--spark-master-url=local[1]"
    with server_process(*warm) as (_, endpoint):
        submit = command(jar, endpoint, "--numbers=100")
        subprocess.run(submit, check=True, timeout=600)
        assert not list(room.glob("*/spare-jvm/taken"))
        wait_until(lambda: list(room.glob("*/spare-jvm/waiting-*")), 300.0)
        wait_until(lambda: not list(room.glob("*/spare-jvm/rehearsal")), 300.0)
        with subprocess.Popen(submit, stdout=subprocess.PIPE, text=True) as second:
            wait_until(lambda: list(room.glob("*/spare-jvm/taken")), 300.0)
            told, _ = second.communicate(timeout=600)
        assert second.returncode == 0
        assert "read 100\n" in told
    assert not list(room.glob("*/spare-jvm"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_jvm_that_waits_has_had_bundles_with_a_dofn_of_beams(tmp_path, caplog):
    if shutil.which("javac") is None:
        pytest.skip("there is no Java compiler here")
    home, place = tmp_path / "home", tmp_path / "place"
    (tmp_path / "loaded").write_text("")
    class_paths.remember(home, {jar.name: jar for jar in class_path()}, {}, tmp_path / "loaded")
    with caplog.at_level(logging.DEBUG, "sparkdrain.fnapi.jvm_rehearsal"):
        spare = start_spare_jvm(home, place, time.time())
        assert spare is not None
        wait_until(lambda: not (place / "rehearsal").exists(), 300.0)
    spare.end_unless_taken()
    assert (place / "do-fn").exists()
    assert caplog.messages == ["A JVM that waits has rehearsed 20 bundles."]
