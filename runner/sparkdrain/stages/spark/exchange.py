"""A level's output as a Spark shuffle, and the ways into the JVM for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyspark  # noqa: F401 - whole before a part of it: see the package
from pyspark.serializers import CloudPickleSerializer, NoOpSerializer, pack_long

try:
    from pyspark.util import _load_from_socket
except ImportError:  # Spark 3.5
    from pyspark.rdd import _load_from_socket

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

# Of a pickled task; what is larger is not sent with every task.
_LARGE: Final = 1 << 20
_KEPT: Final = 64
_PLACES_KEPT: Final = 4
_GATES_KEPT: Final = 4

Task = Callable[[int, Iterator[bytes]], Iterator[tuple[int, bytes]]]


class Exchange:
    """Runs a task in every slot and keeps what it sends, by partition, in a Spark shuffle.

    Direct: ``RDD.partitionBy`` gathers blocks in Python lists first, and pickles.

    Args:
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
        wanted: Sequence[int],
        partitioner: Any,
        places: Sequence[str] = (),
    ) -> None:
        ways = self._gate = gate(context)
        deserializer: Any = NoOpSerializer()
        if inputs:
            source = _read(ways, [exchange.pairs for exchange in inputs], wanted)
            source = _at(ways, source, places) if any(places) else source
        elif any(places):
            source = ways.located(tuple(places)).rdd()
        else:
            empty = ways.empty(len(wanted))
            source, deserializer = empty._jrdd.rdd(), empty._jrdd_deserializer
        command = (_Framed(task), None, deserializer, NoOpSerializer())
        pickled = CloudPickleSerializer().dumps(command)
        if len(pickled) > _LARGE:
            # Lives as long as the function that refers to it.
            pickled = CloudPickleSerializer().dumps(context.broadcast(pickled))
        function = ways.python_function(context, pickled)
        sent = ways.python_rdd(source, function, False, False)
        self.pairs: Any = ways.pairwise_rdd(sent).asJavaPairRDD().partitionBy(partitioner)
        self._shuffled = self.pairs.rdd().setSerializer(ways.serializer)

    def run(self) -> None:
        """Run the tasks, and nothing else: what they send can be read later."""
        shuffle = self._shuffled.dependencies().head()
        self._gate.scala_context.submitMapStage(shuffle).get()

    def read(self, partitions: Sequence[int]) -> Iterator[bytes]:
        """Fetch the records of ``partitions`` to the driver; runs the tasks if they have not run.

        What is read at one time must fit into the driver's memory.
        """
        ways = self._gate
        values = ways.value_of_pair(self.pairs)
        served = ways.run_job(ways.scala_context, values, ways.numbers(tuple(partitions)))
        yield from records_from(served)

    def drop(self) -> None:
        """Give the shuffle files back."""
        self._shuffled.cleanShuffleDependencies(False)


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


def _read(ways: JvmGate, pairs: Sequence[Any], wanted: Sequence[int]) -> Any:
    """The records of the ``wanted`` partitions, those of all ``pairs`` put together."""
    together = pairs[0]
    for more in pairs[1:]:
        # With one partitioner, this is a union partition by partition.
        together = together.union(more)
    return ways.prune(ways.value_of_pair(together).rdd(), ways.chosen(tuple(wanted)))


def _at(ways: JvmGate, records: Any, places: Sequence[str]) -> Any:
    """``records``, whose partitions are to be read at ``places``.

    A product of the two has the places as its tasks' preferred locations, and hands one record
    after the other through. Of its partitions those are left in which the two have one number.
    (``zip`` would want as many records on either side.)
    """
    pairs = ways.located(tuple(places)).cartesian(records.toJavaRDD())
    same = tuple(range(0, len(places) ** 2, len(places) + 1))
    return ways.prune(ways.value_of_pair(pairs).rdd(), ways.chosen(same))


def records_from(served: Any) -> Iterator[bytes]:
    """The records that the JVM serves.

    Args:
        served: what the JVM says of the socket: a port or a path, and a secret.
    """
    with _held(_load_from_socket(served, NoOpSerializer())) as records:
        yield from records


def _held(loaded: Any) -> AbstractContextManager[Iterator[bytes]]:
    """What PySpark reads from a socket, as a context that closes the socket.

    PySpark 4.2 and later give such a context. Earlier ones give an iterator, which closes the
    socket when it is collected.
    """
    return loaded if isinstance(loaded, AbstractContextManager) else nullcontext(loaded)


class JvmGate:
    """Ways into Spark's JVM, found once: each look-up is a round trip, and rounds are short.

    Jobs in several threads share it. A list in the JVM is shared when it has all of its elements,
    and is not changed then.
    """

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
        self.numbers = lru_cache(_KEPT)(self._new_list)
        """Makes a Java list of a tuple."""
        self.chosen = lru_cache(_KEPT)(lambda tuple_: self._to_seq(self.numbers(tuple_)).toSet())
        """Makes a Scala set: a function from its elements to whether they are in it."""
        self.located = lru_cache(_PLACES_KEPT)(self._new_located)
        """Makes an RDD of one record for each place, whose task prefers to be there; "" is any."""
        self.empty: Callable[[int], RDD[Any]]
        # Of a range PySpark would make the elements in Python workers, the session's own.
        self.empty = lru_cache(_KEPT)(lambda slots: context.parallelize([], slots))
        """Makes what tasks without input read, in so many slots."""
        self._worker = lru_cache(_KEPT)(self._new_worker)
        self._no_broadcasts = self._array_list()

    def _plain_serializer(self) -> Any:
        """How the JVM writes records, which are numbers and byte arrays, into shuffle files.

        Java's way, and nothing of a record is kept for the next. For byte arrays Spark would take
        Kryo, which it makes ready anew for every partition of every task: in short tasks, that is
        more than half of all that the JVM does (measured).
        """
        conf = self.scala_context.conf().clone().set("spark.serializer.objectStreamReset", "2")
        return self.jvm.org.apache.spark.serializer.JavaSerializer(conf)

    def python_function(self, context: SparkContext, command: bytes) -> Any:
        """What a Python worker of ``context`` is to run."""
        environment, includes = self._worker(
            tuple(sorted(context.environment.items())), tuple(context._python_includes)
        )
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

    def _new_list(self, values: tuple[Any, ...]) -> Any:
        made = self._array_list()
        for value in values:
            made.add(value)
        return made

    def _new_located(self, places: tuple[str, ...]) -> Any:
        pairs = self._new_list(
            tuple(
                self.jvm.scala.Tuple2("", self._to_seq(self._new_list((place,) if place else ())))
                for place in places
            )
        )
        any_ref = self.jvm.scala.reflect.ClassTag.AnyRef()
        return self.scala_context.makeRDD(self._to_seq(pairs), any_ref).toJavaRDD()

    def _new_worker(
        self, environment: tuple[tuple[str, str], ...], includes: tuple[str, ...]
    ) -> tuple[Any, Any]:
        variables = self.jvm.java.util.HashMap()
        for name, value in environment:
            variables.put(name, value)
        return variables, self._new_list(includes)


# By identity: a Java object's hash is a round trip. Kept with it, so that none is another's.
_GATES: Final[dict[int, tuple[Any, JvmGate]]] = {}
_LOCK: Final = threading.Lock()


def gate(context: SparkContext) -> JvmGate:
    """The ways into the JVM of ``context``."""
    jsc = context._jsc
    with _LOCK:
        if id(jsc) not in _GATES:
            if len(_GATES) >= _GATES_KEPT:
                del _GATES[next(iter(_GATES))]
            _GATES[id(jsc)] = jsc, JvmGate(context)
        return _GATES[id(jsc)][1]
