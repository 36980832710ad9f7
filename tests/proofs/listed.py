"""The slow proofs: what each shows, and how it is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Proof:
    """Slow tests that belong together.

    Attributes:
        name: what ``make prove PROOFS=...`` calls it.
        shows: what would be noticed only here.
        paths: files or folders; their slow tests are the proof.
        target: a target of ``make`` that is run instead of tests, if there is one, and values of
            its variables.
        page: the page of ``docs`` where that target itself writes what passed when, if it does.
    """

    name: str
    shows: str
    paths: tuple[str, ...] = ()
    target: str = ""
    page: str = ""

    def holds(self, path: str) -> bool:
        """Whether slow tests of a file belong to this proof."""
        return any(path == own or path.startswith(f"{own}/") for own in self.paths)


PROOFS: Final = (
    Proof(
        "kills",
        "Kafka to Kafka, exactly once: through a hundred kills of workers, hosts, executors, "
        "drivers and their JVMs, drawn by a seed; through a kill of the broker; through a kill of "
        "a host, with either client library",
        ("integration/test_kafka_once.py",),
    ),
    Proof(
        "drains",
        "Kafka to Kafka, exactly once, while the job drains: the broker, a driver, its JVM and a "
        "host are killed in each phase of the drain, and by a seed",
        ("integration/test_killed_drains.py",),
    ),
    Proof(
        "async",
        "Kafka to Kafka, exactly once, by way of an HTTP service that hangs at times: hosts, "
        "workers, an executor and the driver are killed with calls in flight, in a job that "
        "carries them over and in one that waits; then it is drained while calls are in flight",
        ("integration/test_calls_in_flight.py",),
    ),
    Proof(
        "standby",
        "Drivers of one job in processes of their own, over a file, ZooKeeper, Azurite and Kafka: "
        "leaders are killed, stopped, paused, alone and with all of their processes, at twenty "
        "moments for each store, drawn by a seed; another goes on, and how soon is printed. "
        "Kafka to Kafka, each record counts once, and the job is drained. Ten thousand simulated "
        "schedules of accidents. Two drivers share a Spark cluster",
        (
            "tests/standby",
            "integration/test_standby_on_stores.py",
            "integration/test_standby_on_cluster.py",
        ),
    ),
    Proof(
        "kafka",
        "Both client libraries do the same with a real broker: every step of a transaction at "
        "which a process can die, compression, passwords, errors; jobs go on while the broker is "
        "killed and partitions come; what a redeploy without a drain loses; a job of which an "
        "older checkpoint is put back is refused, and publishes once that is overruled",
        (
            "integration/test_kafka.py",
            "integration/test_kafka_clients.py",
            "integration/test_kafka_outbox.py",
            "integration/test_older_checkpoint.py",
            "integration/test_redeploy.py",
        ),
    ),
    Proof(
        "clocks",
        "Workers whose clock is ten minutes ahead make no record of a real broker late, whether "
        "the broker tells its time or not. It needs a JVM of its own, which has that clock",
        ("integration/test_kafka_time.py",),
    ),
    Proof(
        "eventhubs",
        "Event Hubs, by AMQP against a stand-in and by Kafka's protocol: a stream is killed, "
        "resumed and drained with exact totals; events that were deleted",
        ("integration/test_eventhubs.py",),
    ),
    Proof(
        "cluster",
        "Two hosts: a package that the job brings, progress of slots on other hosts, every wrong "
        "Python; executors killed between levels; a slot whose executor is killed gets a new home; "
        "slots move to a worker that joins; after a restart of all, slots go to the hosts that "
        "have their state, and download none; "
        "Nexmark in both modes; nothing is left after a kill of anything. The two hosts are two "
        "addresses of one machine. On network namespaces: Nexmark's queries 3, 5, 8 and 11, each "
        "while a third host joins and leaves, a rolling restart of all hosts, and a restart of "
        "everything",
        (
            "integration/test_cluster.py",
            "integration/test_spark_cluster.py",
            "integration/test_killed_executor.py",
            "integration/test_homes.py",
            "integration/test_local_state_on_cluster.py",
            "integration/test_network_hosts.py",
            "integration/test_leftovers_on_cluster.py",
            "integration/test_nexmark_on_cluster.py",
            "tests/hosts",
        ),
    ),
    Proof(
        "server",
        "A Job service at an address, on Spark: a stream is taken up by the next server after "
        "SIGKILL, with no element left out; memory stays over hundreds of jobs at once; a password "
        "among the settings of jobs is in nothing that it says",
        ("tests/server",),
    ),
    Proof(
        "sdks",
        "Programs of other SDKs submit to a Job service at an address, and run on Spark without "
        "containers: Java, from the jars that it stages; Go, from its worker binary; TypeScript, "
        "in the program itself. Two slots share a JVM, or a process of Go's, which may be killed. "
        "Streams of Java's, of Go's, and of Python's in processes of its "
        "own are exact, though a process and the driver are killed, when they were resumed and "
        "drained. Python programs "
        "use Java's transforms, Kafka's and others, on this machine and on two hosts. A program in "
        "Java reads and writes Kafka by the server's own transforms; another one merges windows "
        "of its own, and one reads groups larger than the heap of its harness. Batch jobs of "
        "Java's and of Go's are exact, though a process is killed. "
        "Python and Java in containers of podman. Batch jobs and streams show samples of elements "
        "that processes have kept",
        (
            "integration/test_java.py",
            "integration/test_java_windows.py",
            "integration/test_java_large_groups.py",
            "integration/test_newer_java.py",
            "integration/test_warm_java.py",
            "integration/test_shared_java.py",
            "integration/test_java_command.py",
            "integration/test_shared_go.py",
            "integration/test_java_transforms.py",
            "integration/test_kafka_from_java.py",
            "integration/test_go.py",
            "integration/test_warm_go.py",
            "integration/test_typescript.py",
            "integration/test_process_streams.py",
            "integration/test_podman.py",
            "integration/test_sdk_streams.py",
            "integration/test_element_samples.py",
        ),
    ),
    Proof(
        "yarn",
        "YARN gives what one machine gives, in batch and in streaming mode; a stock example "
        "of Beam's runs there",
        ("integration/test_yarn.py",),
    ),
    Proof(
        "conformance",
        "Beam's tests of a runner; Beam's suites without compiled stages, by Beam's own client, "
        "as streams on Spark, and their slowest tests in rounds; Beam's examples; transforms that "
        "an expansion service expands",
        ("tests/conformance",),
    ),
    Proof(
        "features",
        "Each feature of Beam's model on Spark, and in memory without compiled stages; by default "
        "they run in memory with them",
        ("tests/features",),
    ),
    Proof(
        "programs",
        "Whole programs: interrupted, killed, drained after their driver was killed; sessions that "
        "are there already; packages that workers need; class data for Java; a year of flights",
        (
            "tests/cli",
            "tests/drain",
            "tests/examples",
            "tests/jobs",
            "tests/rounds",
            "tests/stages",
        ),
    ),
    Proof(
        "size",
        "A gigabyte of state is restored as fast as it is copied; a million timers and keys; "
        "elements that are too large",
        ("tests/checkpoints/test_restore.py", "tests/shuffle", "tests/timers_state"),
    ),
    Proof(
        "power",
        "A job loses its power a thousand times; its disk is full at any write",
        (
            "tests/checkpoints/test_power_loss.py",
            "tests/checkpoints/test_full_at_every_write.py",
        ),
    ),
    Proof(
        "storage",
        "A job's object store is slow, hangs and refuses; its driver is killed forty times while "
        "it writes checkpoints, and rivals take over in many orders",
        (
            "tests/checkpoints/test_object_store.py",
            "tests/checkpoints/test_object_store_on_spark.py",
            "tests/checkpoints/test_kills.py",
            "tests/checkpoints/test_rivals.py",
        ),
    ),
    Proof(
        "stores",
        "Real services as metadata stores: each does what every store must, is away for a while, "
        "hangs, and refuses strangers; a server knows by one what the server before it did",
        (
            "integration/test_server_store.py",
            "integration/test_zookeeper_store.py",
            "integration/test_kafka_store.py",
            "integration/test_azure_store.py",
            "integration/test_azure_checkpoints.py",
        ),
    ),
    Proof(
        "wheel",
        "The wheel installs into a clean environment, without the repository, and runs there",
        ("tests/versions",),
    ),
    Proof(
        "search",
        "Laws and state machines hold for examples that are drawn anew, up to a thousand each; "
        "`make test` tries the same ones each time",
        target="search",
    ),
    Proof(
        "versions",
        "The flights, a part of Beam's suites, and a stream that is killed, resumed and drained, "
        "on pairs of every Python, Beam and Spark that is supported; the wheel is installed for "
        "each",
        target="test-versions ARGS=--record",
        page="versions.md#what-was-tried",
    ),
    Proof(
        "mutants",
        "A test fails for each of many ways to break the product",
        target="mutants ARGS=--record",
        page="mutants.md",
    ),
)


def proof_of(path: str) -> Proof:
    """The proof that a slow test of a file belongs to."""
    found = [proof for proof in PROOFS if proof.holds(path)]
    assert len(found) == 1, f"put the slow tests of {path} into one proof of tests/proofs/listed.py"
    return found[0]
