"""The operations of lifted combines: accumulators by key and window, then the later phases."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import apache_beam as beam
from apache_beam.runners.worker import operation_specs
from apache_beam.transforms.combiners import CountCombineFn, MeanCombineFn
from apache_beam.transforms.core import (
    CallableWrapperCombineFn,
    CombineFn,
    NoSideInputsCallableWrapperCombineFn,
)
from apache_beam.transforms.window import TimestampCombiner, WindowedValue

from sparkdrain.graph import urns
from sparkdrain.harness.beam import BeamTransformFactory, common, name_context, operations
from sparkdrain.shuffle.grouping import PLAIN_KEYS
from sparkdrain.shuffle.keys import refuse_pair

if TYPE_CHECKING:
    from apache_beam.portability.api import beam_runner_api_pb2

# Accumulators of a size that is known and small; many of them may wait.
_SMALL = 1_000_000
_UNKNOWN = 100_000
_CALLABLES = (CallableWrapperCombineFn, NoSideInputsCallableWrapperCombineFn)


class PrecombineOperation(operations.Operation):
    """``beam:transform:combine_per_key_precombine:v1`` for windows with one pane at their end.

    Keys are equal if their encodings are. In a table a key of a plain type stands for itself;
    any other by its encoding, together with the key.
    """

    def __init__(
        self,
        name: common.NameContext,
        spec: Any,
        counter_factory: Any,
        state_sampler: Any,
        combine_fn: Any,
        key_coder: Any,
        window_coder: Any,
    ) -> None:
        super().__init__(name, spec, counter_factory, state_sampler)
        self.combine_fn = combine_fn
        self._first, self.add_input, self._finished = _folding(combine_fn)
        self._encode_key = key_coder.get_impl().encode_nested
        self._encode_window = window_coder.get_impl().encode
        self._limit = _SMALL if _is_small(combine_fn) else _UNKNOWN
        self._forget()

    def _forget(self) -> None:
        self._keys = 0
        # Per encoded window: the window and its table.
        self._windows: dict[bytes, tuple[Any, dict[Any, Any]]] = {}
        # Per windows object that was seen (kept alive here): its tables.
        self._seen: dict[int, tuple[Any, list[dict[Any, Any]]]] = {}
        self._current: Any = None
        self._tables: list[dict[Any, Any]] = []

    def setup(self, data_sampler: Any = None) -> None:
        with self.scoped_start_state:
            super().setup(data_sampler)
            self.combine_fn.setup()

    def process(self, windowed_value: Any) -> None:
        with self.scoped_process_state:
            self.add(windowed_value.value, windowed_value)

    def add(self, value: Any, context: Any) -> None:
        """Add a key-value pair to the accumulator of its key, in each of its windows."""
        if context.windows is not self._current:
            self._enter(context.windows)
        try:
            key, item = value
        except (TypeError, ValueError):
            refuse_pair(value)
        if type(key) in PLAIN_KEYS:
            for table in self._tables:
                if key in table:
                    table[key] = self.add_input(table[key], item)
                else:
                    table[key] = self._first(item)
                    self._keys += 1
        else:
            self._add_encoded(key, item)
        if self._keys >= self._limit:
            self.flush()

    def _add_encoded(self, key: Any, item: Any) -> None:
        encoded = (self._encode_key(key),)
        for table in self._tables:
            entry = table.get(encoded)
            if entry is None:
                table[encoded] = [key, self._first(item)]
                self._keys += 1
            else:
                entry[1] = self.add_input(entry[1], item)

    def table_of(self, context: Any) -> dict[Any, Any]:
        """The table for elements of ``context``, empty if they are in several windows.

        Accumulators of keys that stand for themselves may be replaced in it. It is in use until
        the next ``add``.
        """
        if context.windows is not self._current:
            self._enter(context.windows)
        return self._tables[0] if len(self._tables) == 1 else {}

    def _enter(self, windows: Any) -> None:
        known = self._seen.get(id(windows))
        if known is None:
            tables = []
            for window in windows:
                encoded = self._encode_window(window)
                if encoded not in self._windows:
                    self._windows[encoded] = (window, {})
                tables.append(self._windows[encoded][1])
            known = self._seen[id(windows)] = (windows, tables)
            if len(self._seen) > self._limit:
                self._seen = {id(windows): known}
        self._current, self._tables = known

    def flush(self) -> None:
        """Emit all accumulators."""
        windows = self._windows
        self._forget()
        finished = self._finished
        for window, table in windows.values():
            with_value = WindowedValue(None, window.max_timestamp(), (window,)).with_value
            for key, entry in table.items():
                plain, accumulator = entry if type(key) is tuple else (key, entry)
                self.output(with_value((plain, finished(accumulator))))
            # A caller that still has the table finds no key in it, and asks for another.
            table.clear()

    def finish(self) -> None:
        with self.scoped_finish_state:
            self.flush()
        super().finish()

    def teardown(self) -> None:
        with self.scoped_finish_state:
            super().teardown()
            self.combine_fn.teardown()


Folding = tuple[Callable[[Any], Any], Callable[[Any, Any], Any], Callable[[Any], Any]]


def _folding(combine_fn: Any) -> Folding:
    """How the first input becomes an accumulator, how one is added, and what is sent of it."""
    if type(combine_fn) in _CALLABLES:
        # Their accumulators are lists of inputs; folded as they come, the list has one.
        folded = combine_fn._fn  # noqa: SLF001
        if folded is sum:
            return partial(operator.add, 0), operator.add, _alone
        if folded in (min, max):
            return _as_it_is, folded, _alone
    create, add_input = combine_fn.create_accumulator, combine_fn.add_input

    def first(item: Any) -> Any:
        return add_input(create(), item)

    if getattr(combine_fn.compact, "__func__", None) is CombineFn.compact:
        return first, add_input, _as_it_is
    return first, add_input, combine_fn.compact


def _alone(accumulator: Any) -> list[Any]:
    return [accumulator]


def _as_it_is(accumulator: Any) -> Any:
    return accumulator


def _is_small(combine_fn: Any) -> bool:
    return isinstance(combine_fn, (CountCombineFn, MeanCombineFn)) or (
        isinstance(combine_fn, CallableWrapperCombineFn) and combine_fn._fn in (min, max, sum)  # noqa: SLF001
    )


class CombinePhaseOperation(operations.Operation):
    """Applies one phase of a CombineFn to the value of each key-value pair."""

    def __init__(
        self,
        name: common.NameContext,
        spec: Any,
        counter_factory: Any,
        state_sampler: Any,
        combine_fn: Any,
        phase: str,
    ) -> None:
        super().__init__(name, spec, counter_factory, state_sampler)
        self.combine_fn = combine_fn
        self.apply = {
            "merge": combine_fn.merge_accumulators,
            "extract": combine_fn.extract_output,
        }[phase]

    def setup(self, data_sampler: Any = None) -> None:
        with self.scoped_start_state:
            super().setup(data_sampler)
            self.combine_fn.setup()

    def process(self, windowed_value: Any) -> None:
        with self.scoped_process_state:
            key, value = windowed_value.value
            self.output(windowed_value.with_value((key, self.apply(value))))

    def teardown(self) -> None:
        with self.scoped_finish_state:
            super().teardown()
            self.combine_fn.teardown()


def _create_precombine(
    factory: Any,
    transform_id: str,
    proto: beam_runner_api_pb2.PTransform,
    payload: beam_runner_api_pb2.CombinePayload,
    consumers: dict[str, list[Any]],
) -> Any:
    """The first phase of a lifted combine.

    It is Beam's own if timestamps must be combined too, or if the coder shows no key.
    """
    windowing = factory.get_input_windowing(proto)
    coder = factory.get_only_input_coder(proto)
    at_end = windowing.timestamp_combiner == TimestampCombiner.OUTPUT_AT_EOW
    if not at_end or not coder.wrapped_value_coder.is_kv_coder():
        create, _ = BeamTransformFactory._known_urns[urns.PRECOMBINE]  # noqa: SLF001
        return create(factory, transform_id, proto, payload, consumers)
    operation = PrecombineOperation(
        name_context(transform_id, proto),
        operation_specs.WorkerPartialGroupByKey(b"", None, [factory.get_only_output_coder(proto)]),
        factory.counter_factory,
        factory.state_sampler,
        beam.CombineFn.from_runner_api(payload.combine_fn, factory.context),
        coder.key_coder(),
        coder.window_coder,
    )
    return factory.augment_oldstyle_op(operation, proto.unique_name, consumers)


def _combine_phase(phase: str) -> Any:
    def create(
        factory: Any,
        transform_id: str,
        proto: beam_runner_api_pb2.PTransform,
        payload: beam_runner_api_pb2.CombinePayload,
        consumers: dict[str, list[Any]],
    ) -> Any:
        combine_fn = beam.CombineFn.from_runner_api(payload.combine_fn, factory.context)
        operation = CombinePhaseOperation(
            name_context(transform_id, proto),
            operation_specs.WorkerCombineFn(
                b"", phase, None, [factory.get_only_output_coder(proto)]
            ),
            factory.counter_factory,
            factory.state_sampler,
            combine_fn,
            phase,
        )
        return factory.augment_oldstyle_op(operation, proto.unique_name, consumers)

    return create


COMBINES: Final = {
    urns.PRECOMBINE: _create_precombine,
    urns.MERGE_ACCUMULATORS: _combine_phase("merge"),
    urns.EXTRACT_OUTPUTS: _combine_phase("extract"),
}
"""What makes the operation of a phase, by URN."""
