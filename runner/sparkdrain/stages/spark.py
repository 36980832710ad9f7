"""Every private piece of PySpark that we use; an upgrade of PySpark is checked here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from pyspark import SparkContext, SparkFiles
from pyspark.core.broadcast import Broadcast
from pyspark.core.rdd import RDD
from pyspark.serializers import NoOpSerializer, pack_long
from pyspark.util import _load_from_socket

Task = Callable[[int, Iterator[bytes]], Iterator[tuple[int, bytes]]]


class Exchange:
    """Runs a task in every slot and keeps what it sends, by partition, in a Spark shuffle.

    Direct: ``RDD.partitionBy`` gathers blocks in Python lists first, and pickles.
    """

    def __init__(
        self,
        context: SparkContext,
        task: Task,
        inputs: Sequence[Exchange],
        partitions: int,
        wanted: Sequence[int],
        partitioner: Any,
    ) -> None:
        self._context = context
        if inputs:
            source = _read(context, [exchange.pairs for exchange in inputs], wanted)
        else:
            source = context.parallelize(range(len(wanted)), len(wanted))
        sent = source.mapPartitionsWithIndex(_Framed(task), preservesPartitioning=False)
        sent._bypass_serializer = True
        # Which workers run it; ``context`` may be one job's view of the SparkContext.
        sent.ctx = context
        pairs = context._jvm.PairwiseRDD(sent._jrdd.rdd()).asJavaPairRDD()
        self.pairs: Any = pairs.partitionBy(partitioner)
        self._partitions = partitions

    def read(self, partitions: Sequence[int]) -> Iterator[bytes]:
        """Fetch the records of ``partitions`` to the driver; runs the tasks if they have not run.

        What is read at one time must fit into the driver's memory.
        """
        context = self._context
        values = context._jvm.PythonRDD.valueOfPair(self.pairs)
        chosen = context._jvm.java.util.ArrayList()
        for partition in partitions:
            chosen.append(int(partition))
        served = context._jvm.PythonRDD.runJob(context._jsc.sc(), values, chosen)
        with _load_from_socket(served, NoOpSerializer()) as records:
            yield from records

    def drop(self) -> None:
        """Give the shuffle files back."""
        self.pairs.rdd().cleanShuffleDependencies(False)


class _Framed:
    """Turns (partition, block) pairs into the alternating records that PairwiseRDD expects."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def __call__(self, slot: int, records: Iterator[bytes]) -> Iterator[bytes]:
        for partition, block in self._task(slot, records):
            yield pack_long(partition)
            yield block


def partitioner(context: SparkContext, partitions: int, identity: int) -> Any:
    """A partitioner for ``Exchange``; the same one for all exchanges that are read together."""
    return context._jvm.PythonPartitioner(partitions, identity)


def _read(context: SparkContext, pairs: Sequence[Any], wanted: Sequence[int]) -> RDD[bytes]:
    """The records of the ``wanted`` partitions, those of all ``pairs`` put together."""
    jvm = context._jvm
    together = pairs[0]
    for more in pairs[1:]:
        # With one partitioner, this is a union partition by partition.
        together = together.union(more)
    numbers = jvm.java.util.ArrayList()
    for partition in wanted:
        numbers.append(int(partition))
    # A Scala set is a function from its elements to whether they are in it.
    chosen = jvm.org.apache.spark.api.python.PythonUtils.toSeq(numbers).toSet()
    values = jvm.PythonRDD.valueOfPair(together).rdd()
    pruned = jvm.org.apache.spark.rdd.PartitionPruningRDD.create(values, chosen)
    return RDD(pruned.toJavaRDD(), context, NoOpSerializer())


class FileBroadcast(Broadcast[Any]):
    """A file that every executor gets once, as it is; read it by ``path``."""

    def __init__(self, context: SparkContext, write: Callable[[Any], None]) -> None:
        # Deliberately not Broadcast's own: it would pickle a value.
        self._sc = context
        with NamedTemporaryFile(delete=False, dir=context._temp_dir) as file:
            self._path = file.name
            write(file)
        self._python_broadcast = context._jvm.PythonRDD.setupBroadcast(self._path)
        self._jbroadcast = context._jsc.broadcast(self._python_broadcast)
        self._pickle_registry = context._pickled_broadcast_vars

    @property
    def value(self) -> Any:
        """Not there: a file has no value."""
        message = "value"
        raise AttributeError(message)

    def drop(self) -> None:
        """Remove it everywhere."""
        self._jbroadcast.destroy()
        Path(self._path).unlink(missing_ok=True)


def broadcast_path(broadcast: Broadcast[Any]) -> Path:
    """Where a broadcast file is on this machine, in a task."""
    return Path(broadcast._path)


def sent_file(name: str) -> Path:
    """Where a file that was sent with ``SparkContext.addFile`` is on this machine, in a task."""
    return Path(SparkFiles.get(name)).absolute()


def local_directories() -> list[Path]:
    """Spark's scratch directories, in a task (set by the JVM for its Python workers)."""
    given = os.environ.get("SPARK_LOCAL_DIRS", "")
    return [Path(part) for part in given.split(",") if part]
