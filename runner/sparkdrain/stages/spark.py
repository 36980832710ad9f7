"""Every private piece of PySpark that we use; an upgrade of PySpark is checked here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, Final

from pyspark import Broadcast, SparkContext, SparkFiles
from pyspark.accumulators import AccumulatorParam, _accumulatorRegistry
from pyspark.serializers import CloudPickleSerializer, NoOpSerializer, pack_long

try:
    from pyspark.util import _load_from_socket
except ImportError:  # Spark 3.5
    from pyspark.rdd import _load_from_socket

if TYPE_CHECKING:
    from pyspark import RDD

# Of a pickled task; what is larger is not sent with every task.
_LARGE: Final = 1 << 20

Task = Callable[[int, Iterator[bytes]], Iterator[tuple[int, bytes]]]


class _Gate:
    """Ways into Spark's JVM, found once: each look-up is a round trip, and rounds are short."""

    def __init__(self, context: SparkContext) -> None:
        jvm = self.jvm = context._jvm
        self.function = jvm.SimplePythonFunction
        self.python_rdd = jvm.PythonRDD
        self.value_of_pair = jvm.PythonRDD.valueOfPair
        self.run_job = jvm.PythonRDD.runJob
        self.pairwise_rdd = jvm.PairwiseRDD
        self.prune = jvm.org.apache.spark.rdd.PartitionPruningRDD.create
        self.scala_context = context._jsc.sc()
        self.serializer = self._plain_serializer()
        self._array_list = jvm.java.util.ArrayList
        self._to_seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
        self._located: dict[tuple[str, ...], Any] = {}
        self._lists: dict[tuple[int, ...], Any] = {}
        self._sets: dict[tuple[int, ...], Any] = {}
        self._workers: dict[Any, tuple[Any, Any]] = {}
        self._empty: dict[int, RDD[Any]] = {}
        self._no_broadcasts = self._array_list()

    def _plain_serializer(self) -> Any:
        """How the JVM writes records, which are numbers and byte arrays, into shuffle files.

        Java's way, and nothing of a record is kept for the next. For byte arrays Spark would take
        Kryo, which it makes ready anew for every partition of every task: in short tasks, that is
        more than half of all that the JVM does (measured).
        """
        conf = self.scala_context.conf().clone().set("spark.serializer.objectStreamReset", "2")
        return self.jvm.org.apache.spark.serializer.JavaSerializer(conf)

    def numbers(self, numbers: Sequence[int]) -> Any:
        """A Java list."""
        key = tuple(numbers)
        if key not in self._lists:
            _make_room(self._lists)
            made = self._lists[key] = self._array_list()
            for number in key:
                made.add(int(number))
        return self._lists[key]

    def chosen(self, numbers: Sequence[int]) -> Any:
        """A Scala set: a function from its elements to whether they are in it."""
        key = tuple(numbers)
        if key not in self._sets:
            _make_room(self._sets)
            self._sets[key] = self._to_seq(self.numbers(key)).toSet()
        return self._sets[key]

    def located(self, places: Sequence[str]) -> Any:
        """An RDD of one record for each place, whose task prefers to be there; "" is anywhere."""
        key = tuple(places)
        if key not in self._located:
            _make_room(self._located, _PLACES_KEPT)
            pairs = self._array_list()
            for place in key:
                preferred = self._array_list()
                if place:
                    preferred.add(place)
                pairs.add(self.jvm.scala.Tuple2("", self._to_seq(preferred)))
            any_ref = self.jvm.scala.reflect.ClassTag.AnyRef()
            made = self.scala_context.makeRDD(self._to_seq(pairs), any_ref)
            self._located[key] = made.toJavaRDD()
        return self._located[key]

    def empty(self, context: SparkContext, slots: int) -> RDD[Any]:
        """What a task without input reads."""
        if slots not in self._empty:
            # Of a range PySpark would make the elements in Python workers, the session's own.
            self._empty[slots] = context.parallelize([], slots)
        return self._empty[slots]

    def python_function(self, context: SparkContext, command: bytes) -> Any:
        """What a Python worker of ``context`` is to run."""
        key = (
            tuple(sorted(context.environment.items())),
            tuple(context._python_includes),
            context.pythonExec,
        )
        if key not in self._workers:
            _make_room(self._workers)
            environment = self.jvm.java.util.HashMap()
            for name, value in context.environment.items():
                environment.put(name, value)
            includes = self._array_list()
            for include in context._python_includes:
                includes.add(include)
            self._workers[key] = environment, includes
        environment, includes = self._workers[key]
        broadcasts = self._no_broadcasts
        if context._pickled_broadcast_vars:
            broadcasts = self._array_list()
            for broadcast in context._pickled_broadcast_vars:
                broadcasts.add(broadcast._jbroadcast)
            context._pickled_broadcast_vars.clear()
        return self.function(
            bytearray(command),
            environment,
            includes,
            context.pythonExec,
            context.pythonVer,
            broadcasts,
            context._javaAccumulator,
        )


_KEPT: Final = 64
_PLACES_KEPT: Final = 4
# By identity: a Java object's hash is a round trip. Kept with it, so that none is another's.
_GATES: dict[int, tuple[Any, _Gate]] = {}
_GATES_KEPT: Final = 4


def _make_room(kept: dict[Any, Any], limit: int = _KEPT) -> None:
    if len(kept) >= limit:
        del kept[next(iter(kept))]


def _gate(context: SparkContext) -> _Gate:
    jsc = context._jsc
    if id(jsc) not in _GATES:
        _make_room(_GATES, _GATES_KEPT)
        _GATES[id(jsc)] = jsc, _Gate(context)
    return _GATES[id(jsc)][1]


class Exchange:
    """Runs a task in every slot and keeps what it sends, by partition, in a Spark shuffle.

    Direct: ``RDD.partitionBy`` gathers blocks in Python lists first, and pickles.

    Args:
        context: where it runs.
        task: what is run.
        inputs: what is read.
        partitions: how many there are in what is sent.
        wanted: the partitions of the inputs, one for each slot.
        partitioner: see ``partitioner``.
        places: where Spark should run each slot, as it names places; "" is anywhere. Nothing for
            no preferences but Spark's own.
    """

    def __init__(
        self,
        context: SparkContext,
        task: Task,
        inputs: Sequence[Exchange],
        partitions: int,
        wanted: Sequence[int],
        partitioner: Any,
        places: Sequence[str] = (),
    ) -> None:
        gate = self._gate = _gate(context)
        deserializer: Any = NoOpSerializer()
        if inputs:
            source = _read(gate, [exchange.pairs for exchange in inputs], wanted)
            source = _at(gate, source, places) if any(places) else source
        elif any(places):
            source = gate.located(places).rdd()
        else:
            empty = gate.empty(context, len(wanted))
            source, deserializer = empty._jrdd.rdd(), empty._jrdd_deserializer
        command = (_Framed(task), None, deserializer, NoOpSerializer())
        pickled = CloudPickleSerializer().dumps(command)
        if len(pickled) > _LARGE:
            # Lives as long as the function that refers to it.
            pickled = CloudPickleSerializer().dumps(context.broadcast(pickled))
        function = gate.python_function(context, pickled)
        sent = gate.python_rdd(source, function, False, False)
        self.pairs: Any = gate.pairwise_rdd(sent).asJavaPairRDD().partitionBy(partitioner)
        self._shuffled = self.pairs.rdd().setSerializer(gate.serializer)

    def run(self) -> None:
        """Run the tasks, and nothing else: what they send can be read later."""
        shuffle = self._shuffled.dependencies().head()
        self._gate.scala_context.submitMapStage(shuffle).get()

    def read(self, partitions: Sequence[int]) -> Iterator[bytes]:
        """Fetch the records of ``partitions`` to the driver; runs the tasks if they have not run.

        What is read at one time must fit into the driver's memory.
        """
        gate = self._gate
        values = gate.value_of_pair(self.pairs)
        served = gate.run_job(gate.scala_context, values, gate.numbers(partitions))
        with _held(_load_from_socket(served, NoOpSerializer())) as records:
            yield from records

    def drop(self) -> None:
        """Give the shuffle files back."""
        self._shuffled.cleanShuffleDependencies(False)


def _held(loaded: Any) -> AbstractContextManager[Iterator[bytes]]:
    """What PySpark reads from a socket, as a context that closes the socket.

    PySpark 4.2 and later give such a context. Earlier ones give an iterator, which closes the
    socket when it is collected.
    """
    return loaded if isinstance(loaded, AbstractContextManager) else nullcontext(loaded)


class Notes:
    """What tasks tell the driver beside their output. What a failed task has told does not come.

    A task that Spark has run again although it had succeeded has told everything once more.
    """

    def __init__(self, context: SparkContext) -> None:
        self._accumulator = context.accumulator([], _Lists())

    def tell(self, record: bytes) -> None:
        """Tell the driver; in a task."""
        self._accumulator.add([record])

    def take(self) -> list[bytes]:
        """What was told since the last call, by tasks of runs that are over; in the driver."""
        told: list[bytes] = self._accumulator.value
        self._accumulator.value = []
        return told

    def close(self) -> None:
        """Nobody will tell anything any more."""
        _accumulatorRegistry.pop(self._accumulator.aid, None)


class _Lists(AccumulatorParam[list[bytes]]):
    """Lists, put one behind the other."""

    def zero(self, value: list[bytes]) -> list[bytes]:
        return []

    def addInPlace(self, value1: list[bytes], value2: list[bytes]) -> list[bytes]:  # noqa: N802
        value1.extend(value2)
        return value1


class _Framed:
    """Turns (partition, block) pairs into the alternating records that PairwiseRDD expects."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def __call__(self, slot: int, records: Iterator[bytes]) -> Iterator[bytes]:
        for partition, block in self._task(slot, records):
            yield pack_long(partition)
            yield block
        # Spark uses a worker again only if it has read all of its input.
        for _ in records:
            pass


def partitioner(context: SparkContext, partitions: int, identity: int) -> Any:
    """A partitioner for ``Exchange``; the same one for all exchanges that are read together."""
    return context._jvm.PythonPartitioner(partitions, identity)


def _read(gate: _Gate, pairs: Sequence[Any], wanted: Sequence[int]) -> Any:
    """The records of the ``wanted`` partitions, those of all ``pairs`` put together."""
    together = pairs[0]
    for more in pairs[1:]:
        # With one partitioner, this is a union partition by partition.
        together = together.union(more)
    return gate.prune(gate.value_of_pair(together).rdd(), gate.chosen(wanted))


def _at(gate: _Gate, records: Any, places: Sequence[str]) -> Any:
    """``records``, whose partitions are to be read at ``places``.

    A product of the two has the places as its tasks' preferred locations, and hands one record
    after the other through. Of its partitions those are left in which the two have one number.
    (``zip`` would want as many records on either side.)
    """
    pairs = gate.located(places).cartesian(records.toJavaRDD())
    same = range(0, len(places) ** 2, len(places) + 1)
    return gate.prune(gate.value_of_pair(pairs).rdd(), gate.chosen(same))


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
