"""Ways from Python into the JVM of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark import RDD, SparkContext


class JvmGate:
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
_GATES: dict[int, tuple[Any, JvmGate]] = {}
_GATES_KEPT: Final = 4


def _make_room(kept: dict[Any, Any], limit: int = _KEPT) -> None:
    if len(kept) >= limit:
        del kept[next(iter(kept))]


def gate(context: SparkContext) -> JvmGate:
    """The ways into the JVM of ``context``."""
    jsc = context._jsc
    if id(jsc) not in _GATES:
        _make_room(_GATES, _GATES_KEPT)
        _GATES[id(jsc)] = jsc, JvmGate(context)
    return _GATES[id(jsc)][1]
