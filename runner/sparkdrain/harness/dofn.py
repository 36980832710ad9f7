"""A DoFn as it comes out of a pipeline: loaded once, and shared by all who ask for it."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apache_beam.internal import pickler
from apache_beam.options.value_provider import RuntimeValueProvider
from apache_beam.pvalue import SideInputData
from apache_beam.runners.worker.bundle_processor import StateBackedSideInputMap
from apache_beam.transforms import sideinputs
from apache_beam.transforms.core import DoFnInfo

from sparkdrain.harness.compiled.windowing import with_one_global_window
from sparkdrain.harness.concurrent.dofn import concurrent_dofn
from sparkdrain.harness.concurrent.loaded_sides import LoadedSideInputs
from sparkdrain.harness.drain_hook import DrainHook, drain_hook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apache_beam.portability.api import beam_runner_api_pb2

    from sparkdrain.concurrency.settings import AsyncStep
    from sparkdrain.harness.concurrent.dofn import ConcurrentDoFn

# Beam's operations take a DoFn as bytes and load it three times. The bytes we give them name an
# entry here, so that one instance serves the operation and the compiled stage alike.
_LOADED: dict[int, Any] = {}
_NUMBERS = itertools.count()


class _Reference:
    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _loaded, (self._number,)


def _loaded(number: int) -> Any:
    return _LOADED[number]


@contextlib.contextmanager
def not_remembered() -> Iterator[None]:
    """What is made here asks for its side inputs with every element.

    Else a DoFn keeps, for its whole life, what it got of those that are in the global window.
    """
    before = RuntimeValueProvider.experiments
    RuntimeValueProvider.experiments = {*(before or ()), "disable_global_windowed_args_caching"}
    try:
        yield
    finally:
        RuntimeValueProvider.experiments = before


@dataclass(slots=True)
class DoFnHandle:
    """A loaded DoFn with its arguments; ``close`` it when the bundle processor is gone."""

    dofn: Any
    args: Any
    kwargs: Any
    windowing: Any
    serialized: bytes
    side_inputs: list[Any]
    has_state: bool
    hook: DrainHook | None
    concurrent: ConcurrentDoFn | None
    _number: int

    def close(self) -> None:
        """Forget the instance."""
        _LOADED.pop(self._number, None)


def load_dofn(
    factory: Any,
    transform_id: str,
    proto: beam_runner_api_pb2.PTransform,
    payload: beam_runner_api_pb2.ParDoPayload,
    chosen: AsyncStep | None = None,
) -> DoFnHandle:
    """Load the DoFn of a ParDo (``beam:transform:pardo:v1``).

    Args:
        factory: the maker of the stage's operations.
        transform_id: the ParDo's transform.
        proto: the ParDo.
        payload: its payload.
        chosen: what an option says of how it waits.
    """
    data = DoFnInfo.from_runner_api(payload.do_fn, factory.context).serialized_dofn_data()
    dofn, args, kwargs, tags, windowing = pickler.loads(data)
    if not windowing:
        (main,) = (p for tag, p in proto.inputs.items() if tag not in payload.side_inputs)
        windowing = factory.context.windowing_strategies.get_by_id(
            factory.descriptor.pcollections[main].windowing_strategy_id
        )
    concurrent = concurrent_dofn(dofn, chosen)
    has_state = bool(payload.state_specs or payload.timer_family_specs)
    if concurrent is not None:
        dofn, has_state = concurrent.dofn, concurrent.has_state
    number = next(_NUMBERS)
    _LOADED[number] = (dofn, args, kwargs, tags, with_one_global_window(windowing))
    return DoFnHandle(
        dofn,
        args,
        kwargs,
        windowing,
        pickler.dumps(_Reference(number)),
        _side_inputs(factory, transform_id, proto, payload, concurrent),
        has_state,
        drain_hook(dofn),
        concurrent,
        number,
    )


def _side_inputs(
    factory: Any,
    transform_id: str,
    proto: beam_runner_api_pb2.PTransform,
    payload: beam_runner_api_pb2.ParDoPayload,
    concurrent: ConcurrentDoFn | None,
) -> list[Any]:
    views = sorted(
        (
            (tag, SideInputData.from_runner_api(side, factory.context))
            for tag, side in payload.side_inputs.items()
        ),
        key=lambda view: sideinputs.get_sideinput_index(view[0]),
    )
    made = StateBackedSideInputMap if concurrent is None else LoadedSideInputs
    return [
        made(
            factory.state_handler,
            transform_id,
            tag,
            view,
            factory.get_windowed_coder(proto.inputs[tag]),
        )
        for tag, view in views
    ]
