"""Which transforms are simple enough to be compiled, and what each does to an element."""

from __future__ import annotations

import enum
import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms.core import CallableWrapperDoFn, Windowing, _DoFnParam
from apache_beam.typehints.typecheck import AbstractDoFnWrapper

from sparkdrain.graph import urns
from sparkdrain.harness.beam import common
from sparkdrain.harness.compiled.windowing import WindowAssigner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from apache_beam.portability.api import beam_fn_api_pb2


class StepKind(enum.Enum):
    """What a step makes of the value ``v`` it is given."""

    MAP = enum.auto()
    """``function(v)``"""
    MAP_TUPLE = enum.auto()
    """``function(*v)``"""
    FILTER = enum.auto()
    """``v``, if ``function(v)``"""
    FLAT_MAP = enum.auto()
    """each of ``function(v)``, or nothing if that is None"""
    GENERATOR = enum.auto()
    """each of ``function(v)``, which is never None"""
    MAP_VALUE = enum.auto()
    """``(k, function(x))`` for ``v = (k, x)``"""
    ASSIGN_WINDOWS = enum.auto()
    """``v`` in the context ``function(context, v)``"""
    IDENTITY = enum.auto()
    """``v``"""
    FOLD = enum.auto()
    """``function(v, context)`` adds it to the accumulator of its key; nothing comes out"""
    END = enum.auto()
    """``function(v, context)`` takes it; nothing comes out"""
    RESULTS = enum.auto()
    """``v``, which user code has made; at the beginning of a chain only"""


@dataclass(slots=True)
class Step:
    """A transform that takes one element at a time and looks at its value only."""

    transform: str
    kind: StepKind
    function: Callable[..., Any] | None
    operation: Any
    checks_results: bool = False
    """Whether a string or dict instead of an iterable of results is an error."""
    windowfn: Any = None
    """Gives windows to elements that a DoFn yields with a new timestamp; None for other steps."""
    consumers: list[str] = field(default_factory=list)

    @property
    def is_last(self) -> bool:
        """Whether nothing comes out of it."""
        return self.kind in (StepKind.FOLD, StepKind.END)

    @property
    def has_tags(self) -> bool:
        """Whether there are outputs beside the main one."""
        return len(self.operation.spec.output_tags) > 1

    @property
    def may_yield_wrapped(self) -> bool:
        """Whether user code makes the values, which may then be tagged or timestamped."""
        return self.windowfn is not None


# Beam's Map, MapTuple and Filter are DoFns around a lambda around the user's function.
_LAMBDAS = {
    "Map.<locals>.<lambda>": StepKind.MAP,
    "MapTuple.<locals>.<lambda>": StepKind.MAP_TUPLE,
    "Filter.<locals>.<lambda>": StepKind.FILTER,
}


def _recognise(  # noqa: PLR0911 - one for each kind
    transform_id: str, proto: Any, operation: Any, factory: Any
) -> Step | None:
    """The step that a transform is, or None if it is not simple."""
    urn = proto.spec.urn
    if urn in (urns.SINK, urns.CHANNEL_SINK):
        return Step(transform_id, StepKind.END, operation.writer.write, operation)
    if urn == urns.PRECOMBINE and hasattr(operation, "add"):
        return Step(transform_id, StepKind.FOLD, operation.add, operation)
    if urn in (urns.IDENTITY, urns.FLATTEN):
        return Step(transform_id, StepKind.IDENTITY, None, operation)
    if urn in (urns.MERGE_ACCUMULATORS, urns.EXTRACT_OUTPUTS):
        return Step(transform_id, StepKind.MAP_VALUE, operation.apply, operation)
    if urn == urns.ASSIGN_WINDOWS:
        strategy = beam_runner_api_pb2.WindowingStrategy.FromString(proto.spec.payload)
        assign = WindowAssigner(Windowing.from_runner_api(strategy, factory.context).windowfn)
        return Step(transform_id, StepKind.ASSIGN_WINDOWS, assign, operation)
    if urn == urns.PAR_DO:
        handle = factory.dofns.get(transform_id)
        return None if handle is None else _par_do(transform_id, operation, handle)
    return None


def _par_do(transform_id: str, operation: Any, handle: Any) -> Step | None:
    dofn = handle.dofn
    if not takes_element_only(handle):
        return None
    if handle.concurrent is not None:
        return Step(transform_id, StepKind.END, operation.take, operation)
    if not makes_plain_results(dofn):
        return None
    kind, function = _kind(dofn, dofn.process)
    checks = kind is StepKind.FLAT_MAP and not isinstance(dofn, CallableWrapperDoFn)
    windowfn = handle.windowing.windowfn
    return Step(transform_id, kind, function, operation, checks, windowfn)


def takes_element_only(handle: Any) -> bool:
    """Whether ``process`` is called with an element and nothing else."""
    if handle.args or handle.kwargs or handle.side_inputs or handle.has_state:
        return False
    # To look at all of a DoFn, as its pipeline has, takes Beam milliseconds.
    return not any(map(_is_asked_for, common.MethodWrapper(handle.dofn, "process").defaults))


def makes_plain_results(dofn: Any) -> bool:
    """Whether a DoFn makes elements, not batches of them, and no type check reads them."""
    if isinstance(dofn, AbstractDoFnWrapper) or hasattr(dofn, "_runtime_output_constraints"):
        return False
    makes_batches = getattr(dofn.process, "_beam_yields_batches", False)
    return not (dofn._process_batch_defined or makes_batches)  # noqa: SLF001


def _is_asked_for(default: Any) -> bool:
    """Whether a default tells Beam to pass something: a marker, or the class of one."""
    kind = default if isinstance(default, type) else type(default)
    return issubclass(kind, _DoFnParam)


def _kind(dofn: Any, process: Callable[..., Any]) -> tuple[StepKind, Callable[..., Any]]:
    if isinstance(dofn, CallableWrapperDoFn):
        function = dofn._fn  # noqa: SLF001
        code: Any = getattr(function, "__code__", None)
        kind = _LAMBDAS.get(getattr(code, "co_qualname", ""))
        if kind is not None and code.co_filename.replace("\\", "/").endswith(
            "apache_beam/transforms/core.py"
        ):
            users = inspect.getclosurevars(function).nonlocals.get("fn")
            if users is not None:
                return kind, users
        process = dofn.process
    if inspect.isgeneratorfunction(process):
        return StepKind.GENERATOR, process
    return StepKind.FLAT_MAP, process


class Steps:
    """The steps of a stage; each transform is looked at once.

    Args:
        operation: gives the operation of a transform.
        consumers: the transforms that take each PCollection.
        factory: the maker of the operations.
        descriptor: names the transforms of the stage.
    """

    def __init__(
        self,
        operation: Callable[[str], Any],
        consumers: Mapping[str, list[str]],
        factory: Any,
        descriptor: beam_fn_api_pb2.ProcessBundleDescriptor,
    ) -> None:
        self._operation = operation
        self._consumers = consumers
        self._factory = factory
        self._transforms = descriptor.transforms
        self._steps: dict[str, Step | None] = {}

    def __getitem__(self, transform_id: str) -> Step | None:
        if transform_id not in self._steps:
            proto, operation = self._transforms[transform_id], self._operation(transform_id)
            step = _recognise(transform_id, proto, operation, self._factory)
            self._steps[transform_id] = self._followed(step)
        return self._steps[transform_id]

    def results(self, transform_id: str) -> Step | None:
        """What a DoFn makes, as a step that begins a chain; None: Beam must see it."""
        operation, handle = self._operation(transform_id), self._factory.dofns[transform_id]
        if not makes_plain_results(handle.dofn):
            return None
        checks = not isinstance(handle.dofn, CallableWrapperDoFn)
        windowfn = handle.windowing.windowfn
        step = Step(transform_id, StepKind.RESULTS, None, operation, checks, windowfn)
        return self._followed(step)

    def _followed(self, step: Step | None) -> Step | None:
        """``step`` with those behind it, if it can hand elements to them."""
        if step is None or step.is_last:
            return step
        outputs = self._transforms[step.transform].outputs
        main = next(iter(outputs)) if len(outputs) == 1 else "None"
        if main in outputs:
            step.consumers = self._consumers[outputs[main]]
        for consumer in map(self._operation, step.consumers):
            if consumer.get_batching_preference().supports_batches:
                return None
        return step
