"""A program in Java's SDK reads Kafka by the transform that the server's expansion port gives."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from java_program import command, compiled
from kafka_broker import KafkaBroker
from kafka_topics import Topics

from tests.support.server_process import server_process


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_a_java_program_reads_all_records_of_a_topic_in_python(tmp_path):
    if shutil.which("javac") is None:
        pytest.skip("there is no Java compiler here")
    jar = compiled(tmp_path, "FromKafka")
    with KafkaBroker() as broker, server_process("--warm=off", "--expansion-port=0") as made:
        process, endpoint = made
        expansion = re.search(r"listens at (\S+)\.$", process.stdout.readline().strip())[1]
        topics = Topics(broker.address)
        topic = topics.make(2)
        topics.write(topic, [(n % 2, b"key %d" % n, b"value %d" % n) for n in range(500)])

        def read(count: int) -> subprocess.CompletedProcess[str]:
            options = [f"--expansion={expansion}", f"--brokers={broker.address}"]
            options += [f"--topic={topic}", f"--records={count}"]
            return subprocess.run(
                command(jar, endpoint, *options, program="FromKafka"),
                capture_output=True,
                text=True,
                check=False,
                timeout=600,
            )

        done = read(500)
        assert done.returncode == 0, done.stderr
        assert "state DONE" in done.stdout
        assert read(501).returncode == 1
