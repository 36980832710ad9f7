"""A program in Java's SDK copies a topic by transforms that the server's expansion port gives."""

from __future__ import annotations

import re
import shutil

import pytest
from java_program import compiled, ran
from kafka_broker import KafkaBroker
from kafka_topics import Topics

from tests.support.server_process import server_process


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_a_java_program_reads_and_writes_all_records_of_a_topic_in_python(tmp_path):
    if shutil.which("javac") is None:
        pytest.skip("there is no Java compiler here")
    jar = compiled(tmp_path, "CopyTopic")
    with KafkaBroker() as broker, server_process("--warm=off", "--expansion-port=0") as made:
        process, endpoint = made
        expansion = re.search(r"listens at (\S+)\.$", process.stdout.readline().strip())[1]
        topics = Topics(broker.address)
        topic, copy, other = topics.make(2), topics.make(2), topics.make()
        topics.write(topic, [(n % 2, b"key %d" % n, b"value %d" % n) for n in range(500)])

        def run(count: int, to: str):
            options = [f"--expansion={expansion}", f"--brokers={broker.address}"]
            options += [f"--topic={topic}", f"--to={to}", f"--records={count}"]
            return ran(jar, endpoint, *options, program="CopyTopic")

        done = run(500, copy)
        assert done.returncode == 0, done.stderr
        assert "state DONE" in done.stdout
        assert sorted(topics.read(copy, 2)) == sorted(b"key %d" % n for n in range(500))
        assert run(501, other).returncode == 1
