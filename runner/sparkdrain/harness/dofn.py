"""A DoFn as it comes out of a pipeline: loaded once, and shared by all who ask for it."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apache_beam.internal import pickler
from apache_beam.options.value_provider import RuntimeValueProvider
from apache_beam.portability.common_urns import side_inputs
from apache_beam.pvalue import SideInputData
from apache_beam.runners.worker.bundle_processor import StateBackedSideInputMap
from apache_beam.transforms import sideinputs
from apache_beam.transforms.core import DoFnInfo

from sparkdrain.harness.compiled.windowing import with_one_global_window
from sparkdrain.harness.concurrent.dofn import concurrent_dofn
from sparkdrain.harness.drain_hook import DrainHook, drain_hook

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from apache_beam.portability.api import beam_runner_api_pb2

    from sparkdrain.concurrency.settings import AsyncStep
    from sparkdrain.harness.concurrent.dofn import ConcurrentDoFn

_MULTIMAP = side_inputs.MULTIMAP.urn
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


class LoadedSideInputs(StateBackedSideInputMap):
    """A side input that is in memory before user code iterates over it or looks a key up in it.

    User code runs beside the slot's thread, and the state that has a stream's side inputs belongs
    to that thread. In batch jobs side inputs are in files, which any thread may read.
    """

    def __getitem__(self, window: Any) -> Any:
        """What user code gets for a window of its element; called in the slot's thread."""
        target = self._side_input_data.window_mapping_fn(window)
        if target not in self._cache:
            self._cache[target] = self._load(target, super().__getitem__(window))
        return self._cache[target]

    def _load(self, target: Any, view: Any) -> Any:
        handler, transform, tag = self._state_handler, self._transform_id, self._tag
        if handler.is_for_all_threads(transform, tag):
            return view
        if self._side_input_data.access_pattern != _MULTIMAP:
            # What is no iterable of Beam's was made of one just now: a list, a value.
            return list(view) if hasattr(view, "_state_handler") else view
        window, coder = self._target_window_coder.encode(target), self._element_coder
        values = handler.by_key(transform, tag, window, coder.value_coder())
        loaded = _LoadedMultimap(values, coder.key_coder().get_impl())
        return self._side_input_data.view_fn(loaded)


class _LoadedMultimap:
    """The values of each key. A key that is not there has none."""

    def __init__(self, values: Mapping[bytes, list[Any]], key_impl: Any) -> None:
        self._values = values
        self._encode = key_impl.encode_nested

    def __getitem__(self, key: Any) -> list[Any]:
        return self._values.get(self._encode(key), [])
