"""Ways from Python into the JVM of a session."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark import RDD, SparkContext


_KEPT: Final = 64
_PLACES_KEPT: Final = 4
_GATES_KEPT: Final = 4


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
