"""Calls the methods of a stateful DoFn as Beam does, by code that is made for their parameters.

Beam compares each parameter with each kind of marker for every element. What is asked for does not
change, so here a function is written once that passes just that. DoFns with parameters that are
not in ``ELEMENT`` and ``TIMER`` are left to Beam.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from apache_beam import DoFn
from apache_beam.transforms.core import CallableWrapperDoFn
from apache_beam.transforms.timeutil import TimeDomain

from sparkdrain.harness.arguments import arguments_of
from sparkdrain.harness.beam import common, operations
from sparkdrain.harness.call_writer import ELEMENT, NOT_FOR_TIMERS, TIMER, CallWriter
from sparkdrain.harness.compiled.gathering import Gathering
from sparkdrain.harness.compiled.steps import makes_plain_results
from sparkdrain.harness.record_loop import record_loop
from sparkdrain.harness.record_state import RecordPlace, layout_for
from sparkdrain.harness.sampling import size_sampler
from sparkdrain.harness.step_name import raise_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.harness.arguments import Argument
    from sparkdrain.harness.compiled.chain import LazyChain
    from sparkdrain.harness.dofn import DoFnHandle
    from sparkdrain.harness.operations import SourceOperation
    from sparkdrain.harness.round_state import RoundKeyedState

Fire = dict[bytes, "Callable[[Any, Any, Any, Any, str], None]"]


@dataclass(slots=True)
class RecordCalls:
    """The same calls for keys that are kept as records.

    Attributes:
        place: says which record has its turn.
        feed, fire: as those of ``StatefulCalls``.
        loop: feeds many keys, see ``record_loop``.
    """

    place: RecordPlace
    feed: Callable[[Any, list[Any]], None]
    fire: Fire
    loop: Callable[..., tuple[int, Any, Any]]


@dataclass(slots=True)
class StatefulCalls:
    """The calls of one DoFn, for elements of one key after the other, and for its timers.

    Attributes:
        feed: ``feed(key, elements)``: processes windowed values, whose own values have no key.
        fire: by family: ``fire(key, window, timestamp, pane, tag)``.
        event_only: whether all timers fire in event time.
        records: the same for keys that are kept as records; None: none is.
        flush: sees to it that all results of calls have left the DoFn; call it while it processes,
            or fires.
    """

    feed: Callable[[Any, list[Any]], None]
    fire: Fire
    event_only: bool
    records: RecordCalls | None
    flush: Callable[[], None]
    _operation: Any
    _firing: Any
    _source: Any
    _sample: Callable[[Any, Any], None] | None

    def processing(self) -> Any:
        """While the DoFn gets elements, its step is at work."""
        return self._operation.scoped_process_state

    def firing(self) -> Any:
        """The same for timers."""
        return self._firing

    def fed(self, count: int, key: Any, last: Any | None) -> None:
        """Count elements that were fed in a round, of which one may be shown."""
        self._source.receivers[0].opcounter.element_counter.update(count)
        if self._sample is not None and last is not None:
            self._sample((key, last.value), last)

    def reraise(self, error: BaseException) -> NoReturn:
        """Name the step in an error of user code as Beam does, once."""
        raise_named(error, self._operation.name_context)


def stateful_calls(
    source: SourceOperation,
    operation: Any,
    handle: DoFnHandle,
    context: RoundKeyedState,
    chain: LazyChain | None,
) -> StatefulCalls | None:
    """The calls of the DoFn of ``operation``; None if Beam must make them.

    Args:
        source: feeds the operation; Beam must, if it feeds others too.
        operation: set up.
        handle: of the DoFn.
        context: its state.
        chain: takes its results; None: Beam does.
    """
    if list(source.targets) != [operation] or not _is_plain(handle.dofn):
        return None
    signature = common.DoFnSignature(handle.dofn)
    process, timers = signature.process_method, signature.timer_methods
    passed = arguments_of(process, handle, ELEMENT)
    if passed is None or not all(map(_is_known, timers.values())):
        return None
    if chain is None:
        handler = _output_handler(operation, handle, process)
        handle_results, flush = handler.handle_process_outputs, _no_results
    else:
        gathering = Gathering(chain)
        handle_results, flush = gathering.handle_results, gathering.flush
    event_only = all(TimeDomain.is_event_time(spec.time_domain) for spec in timers)
    feed, fire = _written(context, handle_results, process, passed, timers, None)
    place = _record_place(context, process, timers)
    calls = StatefulCalls(
        feed,
        fire,
        event_only,
        None,
        flush,
        operation,
        _firing_state(operation),
        source,
        size_sampler(source.receivers[0]),
    )
    if place is not None:
        loop = record_loop(place, process, passed, handle_results, calls.reraise)
        own = _written(context, handle_results, process, passed, timers, place)
        calls.records = RecordCalls(place, *own, loop)
    return calls


def _no_results() -> None:
    """Beam's handler keeps none."""


def _written(
    context: RoundKeyedState,
    handle_results: Callable[..., None],
    process: Any,
    passed: list[Argument],
    timers: dict[Any, Any],
    place: RecordPlace | None,
) -> tuple[Any, Fire]:
    feed = CallWriter(context, handle_results, place).feed(process, passed)
    return feed, {
        spec.name.encode(): CallWriter(context, handle_results, place).fire(method)
        for spec, method in timers.items()
    }


def _record_place(
    context: RoundKeyedState, process: Any, timers: dict[Any, Any]
) -> RecordPlace | None:
    """Where the DoFn's records have their turns; None if its keys cannot be records."""
    asked = [default for method in (process, *timers.values()) for default in method.defaults]
    states = {d.state_spec.name: d.state_spec for d in asked if isinstance(d, DoFn.StateParam)}
    asked_timers = {default.timer_spec for default in asked if isinstance(default, DoFn.TimerParam)}
    all_timers = {*timers, *asked_timers}
    events = {spec for spec in all_timers if TimeDomain.is_event_time(spec.time_domain)}
    specs = [states[name] for name in sorted(states)]
    layout = layout_for(
        specs,
        sorted(spec.name.encode() for spec in events),
        expires=context.expiry_of is not None,
        others=events != all_timers,
    )
    return None if layout is None else RecordPlace(context, specs, layout)


def _is_plain(dofn: Any) -> bool:
    """Whether a DoFn makes elements, not batches, that nobody checks."""
    return not isinstance(dofn, CallableWrapperDoFn) and makes_plain_results(dofn)


def _is_known(timer: Any) -> bool:
    """Whether the method of a timer asks for nothing but what ``TIMER`` has."""
    for default in timer.defaults:
        if isinstance(default, (DoFn.StateParam, DoFn.TimerParam)):
            continue
        try:
            found = default in TIMER or default in NOT_FOR_TIMERS
        except TypeError:  # of the user's own, and not hashable
            found = False
        if not found:
            return False
    return True


def _firing_state(operation: Any) -> Any:
    """What Beam's operation has for itself; asked for again, it is the same."""
    return operation.state_sampler.scoped_state(
        operation.name_context, "process-timers", metrics_container=operation.metrics_container
    )


def _output_handler(operation: Any, handle: DoFnHandle, process: Any) -> Any:
    """Beam's, as its runner of DoFns makes it."""
    tags, outputs = operation.spec.output_tags, operation.receivers
    receivers = operations._TaggedReceivers(  # noqa: SLF001 - the same
        operation.counter_factory, operation.name_context.logging_name()
    )
    receivers.update(zip(tags, outputs, strict=True))
    if len(tags) == 1:
        receivers[None] = outputs[0]
    elif "None" in tags:
        receivers[None] = receivers["None"]
    return common._OutputHandler(  # noqa: SLF001 - there is no other way to what it does
        handle.windowing.windowfn,
        receivers[None],
        receivers,
        None,
        None,
        False,
        False,
        check_user_dofn_output=not inspect.isgeneratorfunction(process.method_value),
    )
