"""Calls the methods of a stateful DoFn as Beam does, by code that is made for their parameters.

``call_writer`` says why. DoFns with parameters that are not in its ``ELEMENT`` and ``TIMER`` are
left to Beam.
"""

from __future__ import annotations

import inspect
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from apache_beam import DoFn
from apache_beam.transforms.core import CallableWrapperDoFn
from apache_beam.transforms.userstate import Timer

from sparkdrain.harness.beam import common
from sparkdrain.harness.call_writer import NOT_FOR_TIMERS, TIMER, CallWriter, arguments_of
from sparkdrain.harness.compiled.steps import makes_plain_results
from sparkdrain.harness.record_loop import record_loop
from sparkdrain.harness.step_name import raise_named
from sparkdrain.harness.way_out import way_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from sparkdrain.harness.call_writer import Argument
    from sparkdrain.harness.compiled.chain import LazyChain
    from sparkdrain.harness.dofn import DoFnHandle
    from sparkdrain.harness.keyed_state import KeyedState
    from sparkdrain.harness.large_place import LargePlace
    from sparkdrain.harness.operations import SourceOperation
    from sparkdrain.harness.small_place import SmallPlace

Fire = dict[bytes, "Callable[[Any, Any, Any, Any, bytes], Any]"]
"""The call ``fire(key, window, timestamp, pane, tag)`` of each family."""


@dataclass(frozen=True, slots=True)
class TimerCalls:
    """The calls of one DoFn for timers that fire.

    Attributes:
        at_work: while timers fire, the step of the DoFn is at work; then all results have left it.
        reraise: names the step in an error of user code as Beam does, once.
    """

    small: Fire
    large: Fire
    at_work: Callable[[], AbstractContextManager[Any]]
    reraise: Callable[[BaseException], NoReturn]


@dataclass(slots=True)
class FlightCalls:
    """The calls of one DoFn, where the caller takes what the methods return.

    Attributes:
        start: ``start(key, element)``: for an element with one window.
    """

    start: Callable[[Any, Any], Any]
    fire: Fire


@dataclass(slots=True)
class StatefulCalls:
    """The calls of one DoFn, for elements of one key after the other, and for its timers.

    Attributes:
        small: ``feed(key, elements)`` for small keys: windowed values that have no key in them.
        loop: feeds many small keys, see ``record_loop``.
        flush: sees to it that all results of calls have left the DoFn; call it while it processes.
        processing: a context in which the DoFn's step is at work; for feeding elements.
    """

    small: Callable[[Any, list[Any]], None]
    large: Callable[[Any, list[Any]], None]
    loop: Callable[..., tuple[int, Any, Any]]
    timers: TimerCalls
    flush: Callable[[], None]
    processing: Any


def stateful_calls(
    source: SourceOperation,
    operation: Any,
    handle: DoFnHandle,
    context: KeyedState,
    chain: LazyChain | None,
) -> StatefulCalls | None:
    """The calls of the DoFn of ``operation``; None if Beam must make them.

    Args:
        source: feeds the operation; Beam must, if it feeds others too.
        operation: set up.
        chain: takes its results; None: Beam does.
    """
    asked = _asked(handle) if source.targets == [operation] else None
    if asked is None:
        return None
    process, passed, timers = asked
    checks = not inspect.isgeneratorfunction(process.method_value)
    handle_results, flush = way_out(operation, handle, chain, checks=checks)
    # What Beam's operation has for itself; asked for again, it is the same.
    firing = operation.state_sampler.scoped_state(
        operation.name_context, "process-timers", metrics_container=operation.metrics_container
    )

    def reraise(error: BaseException) -> NoReturn:
        raise_named(error, operation.name_context)

    @contextmanager
    def at_work() -> Iterator[None]:
        with firing:
            yield
            flush()

    def feed_in(place: LargePlace | SmallPlace) -> Any:
        return CallWriter(place, handle_results).feed(process, passed)

    return StatefulCalls(
        feed_in(context.small),
        feed_in(context.large),
        record_loop(context.small, process, passed, handle_results, reraise),
        TimerCalls(
            _fire_in(context.small, timers, handle_results),
            _fire_in(context.large, timers, handle_results),
            at_work,
            reraise,
        ),
        flush,
        operation.scoped_process_state,
    )


def beam_timers(process_timer: Callable[[str, Any], None], specs: Iterable[Any]) -> TimerCalls:
    """The calls of a DoFn that Beam makes, by ``process_timer``, for timers of these specs."""

    def fire(name: str, key: Any, window: Any, timestamp: Any, pane: Any, tag: bytes) -> None:
        timer = Timer(
            user_key=key,
            dynamic_timer_tag=tag.decode(),
            windows=(window,),
            clear_bit=False,
            fire_timestamp=timestamp,
            hold_timestamp=None,
            paneinfo=pane,
        )
        process_timer(name, timer)

    def reraise(error: BaseException) -> NoReturn:
        raise error

    # Beam sees to it for each call that the step is at work, and names the step in errors.
    by_family: Fire = {spec.name.encode(): partial(fire, spec.name) for spec in specs}
    return TimerCalls(by_family, by_family, nullcontext, reraise)


def flight_calls(
    handle: DoFnHandle, process: Callable[..., Any]
) -> Callable[[SmallPlace | LargePlace], FlightCalls] | None:
    """The calls of a DoFn of which many elements are in flight; None if Beam must make them.

    Args:
        process: its own, which ``handle.dofn`` has not got anymore.
    """
    asked = _asked(handle)
    if asked is None:
        return None
    _, passed, timers = asked

    def calls_in(place: SmallPlace | LargePlace) -> FlightCalls:
        return FlightCalls(CallWriter(place).start(process, passed), _fire_in(place, timers))

    return calls_in


def _fire_in(
    place: SmallPlace | LargePlace,
    timers: dict[Any, Any],
    handle_results: Callable[..., None] | None = None,
) -> Fire:
    return {
        spec.name.encode(): CallWriter(place, handle_results).fire(method)
        for spec, method in timers.items()
    }


def _asked(handle: DoFnHandle) -> tuple[Any, list[Argument], dict[Any, Any]] | None:
    """``process``, what is passed to it, and what timers have; None if that is not all known."""
    if isinstance(handle.dofn, CallableWrapperDoFn) or not makes_plain_results(handle.dofn):
        return None
    signature = common.DoFnSignature(handle.dofn)
    process, timers = signature.process_method, signature.timer_methods
    passed = arguments_of(process, handle)
    if passed is None or not all(map(_is_known, timers.values())):
        return None
    return process, passed, timers


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
